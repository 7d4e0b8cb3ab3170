#include "comm/messages_suite.h"

#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace ingot::comm {
namespace {

using std::chrono::milliseconds;

Message message(int peer, bool send, uint64_t tag, void* data, int64_t bytes) {
  Message made;
  made.peer = peer;
  made.send = send;
  made.tag = tag;
  made.data = data;
  made.bytes = bytes;
  return made;
}

void complete(Messages& messages, Message& message) {
  const int64_t limit = monotonic_ns() + int64_t{20'000'000'000};
  while (message.state == Message::State::kPosted && monotonic_ns() < limit)
    if (!messages.progress() && messages.arm()) messages.sleep(milliseconds(100));
  ASSERT_EQ(message.state, Message::State::kDone) << message.failure;
}

TEST_P(MessagesContract, EverySizeArrivesWhoeverPostsFirst) {
  run(2, [&](Messages& messages) {
    const int other = 1 - messages.rank();
    uint64_t tag = 1;
    for (const int64_t bytes : {0, 1, 4096, 8255, 8257, 100'000, 8 << 20}) {
      for (const bool receive_first : {false, true}) {
        std::vector<char> out(static_cast<size_t>(bytes)), in(static_cast<size_t>(bytes));
        std::iota(out.begin(), out.end(), static_cast<char>(messages.rank()));
        Message sent = message(other, true, tag + static_cast<uint64_t>(messages.rank()), out.data(), bytes);
        Message got = message(other, false, tag + static_cast<uint64_t>(other), in.data(), bytes);
        messages.post(receive_first ? got : sent);
        messages.post(receive_first ? sent : got);
        complete(messages, got);
        complete(messages, sent);
        std::iota(out.begin(), out.end(), static_cast<char>(other));
        ASSERT_EQ(in, out) << bytes;
        tag += 2;
      }
    }
    EXPECT_TRUE(messages.close());
  });
}

// Of every field that a transport must tell apart, the lowest and the highest bit.
TEST_P(MessagesContract, TagsAreMatchedInAllTheirFields) {
  run(2, [](Messages& messages) {
    constexpr int kChannel = kTagLaneBits + kTagRestBits, kSent = 12;
    std::vector<uint64_t> tags = {0};
    for (const int bit :
         {0, kSent - 1, kTagRestBits, kTagRestBits + 1, kChannel, kChannel + kTagChannelBits - 1})
      tags.push_back(uint64_t{1} << bit);
    // In the lanes of messages of send and receive the caller's tag is in the high bits of the rest.
    for (const int bit : {kSent, kTagRestBits - 1})
      tags.push_back(uint64_t{1} << bit | uint64_t{1} << kTagRestBits);
    const bool sends = messages.rank() == 0;
    const size_t count = tags.size();
    std::vector<uint64_t> values = sends ? tags : std::vector<uint64_t>(count, 5);
    std::vector<Message> posted(count);
    for (size_t i = 0; i < count; ++i) {
      const size_t k = sends ? i : count - 1 - i;
      posted[k] = message(1 - messages.rank(), sends, tags[k], &values[k], sizeof values[k]);
      messages.post(posted[k]);
    }
    for (Message& one : posted) complete(messages, one);
    EXPECT_EQ(values, tags);
    EXPECT_TRUE(messages.close());
  });
}

TEST_P(MessagesContract, AReceiveOfAnotherSizeEnds) {
  run(2, [&](Messages& messages) {
    for (const int64_t sent : {4, 16}) {
      int32_t data[4] = {messages.rank() + 5};
      Message one = message(1 - messages.rank(), messages.rank() == 0, static_cast<uint64_t>(sent), data,
                            messages.rank() == 0 ? sent : 8);
      messages.post(one);
      while (one.state == Message::State::kPosted) messages.progress();
      const bool too_short = messages.rank() == 1 && sent > 8;
      EXPECT_EQ(one.state, too_short ? Message::State::kFailed : Message::State::kDone);
      EXPECT_EQ(one.failure, std::string(too_short ? "Message truncated" : ""));
      if (!too_short) {
        EXPECT_EQ(data[0], 5);
      }
    }
    EXPECT_TRUE(messages.close());
  });
}

// Asleep until its limit, until it is woken, and until a message comes.
TEST_P(MessagesContract, SleepEndsSoonAfterItsCause) {
  run(2, [&](Messages& messages) {
    const auto asleep_ns = [&](milliseconds limit) {
      const int64_t begin = monotonic_ns();
      messages.sleep(limit);
      return monotonic_ns() - begin;
    };
    while (!messages.arm()) messages.progress();
    if (GetParam().events_end_sleep) {
      EXPECT_GE(asleep_ns(milliseconds(30)), 25'000'000);
    }
    std::thread waker([&messages] {
      std::this_thread::sleep_for(milliseconds(30));
      messages.wake();
    });
    EXPECT_LT(asleep_ns(milliseconds(10000)), 5'000'000'000);
    waker.join();
    messages.wake();  // ends the next one
    EXPECT_LT(asleep_ns(milliseconds(10000)), 5'000'000'000);
    int32_t value = 5;
    const bool first = messages.rank() == 0;
    Message question = message(1 - messages.rank(), first, 1, &value, 4);
    Message answer = message(1 - messages.rank(), !first, 2, &value, 4);
    messages.post(question);
    complete(messages, question);
    if (!first) std::this_thread::sleep_for(milliseconds(50));
    const int64_t begin = monotonic_ns();
    messages.post(answer);
    complete(messages, answer);
    EXPECT_LT(monotonic_ns() - begin, 5'000'000'000);
    EXPECT_TRUE(messages.close());
  });
}

}  // namespace
}  // namespace ingot::comm
