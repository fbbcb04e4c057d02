//===- Checksum.h - CRC-32C of what is sent ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// TCP's own sum is of 16 bits, and ends at the network card: what memory, cards
// and switches do to bytes it often does not see.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_CHECKSUM_H
#define DT_RUNTIME_COMM_TCP_CHECKSUM_H

#include <cstddef>
#include <cstdint>

namespace dt::rt::tcp {

/// CRC-32C (Castagnoli, RFC 3720) of bytes behind those whose sum is `before`.
/// By the processor's instruction where it has one.
uint32_t checksum(const void *data, size_t bytes, uint32_t before = 0);
/// The same by tables, on any processor: for tests.
uint32_t checksumByTables(const void *data, size_t bytes, uint32_t before = 0);

/// DT_CHECKSUM does not say "off". All ranks must say the same.
bool usesChecksums();

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_CHECKSUM_H
