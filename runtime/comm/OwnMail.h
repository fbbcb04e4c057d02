//===- OwnMail.h - messages of a rank to itself -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_OWNMAIL_H
#define DT_RUNTIME_COMM_OWNMAIL_H

#include "runtime/comm/Comm.h"

#include <cstring>
#include <list>

namespace dt::rt {

/// Messages of a rank to itself: they meet when both sides are there.
class OwnMail {
public:
  Request send(const void *data, size_t bytes, int tag) {
    return post({data, nullptr, bytes, tag, false});
  }
  Request receive(void *data, size_t bytes, int tag) {
    return post({nullptr, data, bytes, tag, false});
  }

private:
  struct Letter {
    const void *from;
    void *to;
    size_t bytes;
    int tag;
    bool done;
  };

  struct Waiting final : Request::Operation {
    explicit Waiting(std::shared_ptr<Letter> letter)
        : letter(std::move(letter)) {}
    bool test() override { return letter->done; }
    void wait() override {
      if (!letter->done)
        throw Error("waiting for a message that this rank itself would have to "
                    "send");
    }
    std::shared_ptr<Letter> letter;
  };

  Request post(Letter letter) {
    for (auto it = open.begin(); it != open.end(); ++it) {
      Letter &other = **it;
      if (other.tag != letter.tag || !other.from == !letter.from)
        continue;
      if (other.bytes != letter.bytes)
        throw Error("a message of " + std::to_string(letter.bytes) +
                    " bytes meets a buffer of " + std::to_string(other.bytes));
      std::memcpy(letter.to ? letter.to : other.to,
                  letter.from ? letter.from : other.from, letter.bytes);
      other.done = true;
      open.erase(it);
      return {};
    }
    open.push_back(std::make_shared<Letter>(letter));
    return Request(std::make_unique<Waiting>(open.back()));
  }

  std::list<std::shared_ptr<Letter>> open; ///< in order of posting
};

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_OWNMAIL_H
