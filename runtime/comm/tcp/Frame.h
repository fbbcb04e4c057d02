//===- Frame.h - what stands before bytes on a connection -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_FRAME_H
#define DT_RUNTIME_COMM_TCP_FRAME_H

#include <cstdint>

namespace dt::rt::tcp {

/// In the byte order of the machine (Introduction.h). Who changes it changes
/// kProtocol, too.
struct Frame {
  enum Kind : uint32_t {
    Whole, ///< a message's `bytes` follow
    Ask,   ///< a message of `bytes` that is sent when it is wanted
    Grant, ///< it is
    Part,  ///< `bytes` of it follow
    Bye,   ///< the sender ends as it should
    Ends,  ///< the sender ends because of an error, which somebody has said
  };
  uint32_t kind;
  uint32_t body = 0; ///< checksum of the bytes that follow
  uint64_t tag;      ///< of Whole and Ask
  uint64_t number;   ///< of Ask, Grant and Part: the sender's, of the message
  uint64_t bytes;
  uint32_t head = 0; ///< checksum of all before
  uint32_t unused = 0;
};

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_FRAME_H
