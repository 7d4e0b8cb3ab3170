// A schedule played message by message: ranks do steps as soon as what they wait for is done and the core or
// link that they need is free. What occupies what: a sum or copy, and a message inside a node (which its
// receiver copies), the receiver's core; a message between nodes the links of both nodes, which all ranks of
// a node share.

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <queue>

#include "base/check.h"
#include "cost/collective_cost.h"

namespace ingot::cost {
namespace {

size_t index(int64_t i) { return static_cast<size_t>(i); }

// Members that stand for all others. Where nodes hold equally many members one after another, and an
// algorithm has no distinguished member, what happens on one node happens on each: a message that leaves for
// another node comes in from one in the same way.
class Symmetry {
 public:
  Symmetry(const Algorithm& algorithm, Collective operation, const Nodes& nodes, bool all)
      : algorithm_(algorithm) {
    const int n = static_cast<int>(nodes.size());
    per_node_ = 1;
    while (per_node_ < n && nodes[index(per_node_)] == nodes[0]) ++per_node_;
    bool alike = !all && n % per_node_ == 0;
    for (int i = 0; i < n && alike; ++i) alike = nodes[index(i)] == nodes[index(i / per_node_ * per_node_)];
    for (int i = per_node_; i < n && alike; i += per_node_) alike = nodes[index(i)] != nodes[index(i - 1)];
    alike = alike && operation != Collective::kBroadcast && operation != Collective::kAllToAll;
    int stride = 1;
    for (const Dimension& dimension : algorithm.dimensions) {
      const int unit = std::clamp(per_node_ / stride, 1, dimension.size);
      units_.push_back(unit);
      alike = alike && dimension.pattern != Pattern::kTree && dimension.size % unit == 0 &&
              (stride >= per_node_ || per_node_ % (stride * unit) == 0);
      stride *= dimension.size;
    }
    members_ = alike ? per_node_ : n;
  }

  int members() const { return members_; }  // the first ones: these are played
  // The one of them that stands for `peer`, and who `member` is to it.
  std::pair<int, int> seen_from(int peer, int member) const {
    if (peer < members_) return {peer, member};
    int stand_in = 0, other = 0, stride = 1;
    for (size_t k = 0; k < units_.size(); ++k) {
      const Dimension& dimension = algorithm_.dimensions[k];
      const int own = peer / stride % dimension.size, digit = member / stride % dimension.size;
      const int local = own % units_[k];
      stand_in += local * stride;
      const int moved = dimension.pattern == Pattern::kHalving
                            ? digit ^ (own ^ local)
                            : (digit - (own - local) + dimension.size) % dimension.size;
      other += moved * stride;
      stride *= dimension.size;
    }
    return {stand_in, other};
  }

 private:
  const Algorithm& algorithm_;
  int per_node_ = 1, members_ = 1;
  std::vector<int> units_;  // of each dimension: how many of its digits lie in one node
};

class Play {
 public:
  Play(const CollectiveCall& call, int64_t element_bytes, const Algorithm& algorithm, int64_t piece_bytes,
       const Nodes& nodes, const Fabric& fabric, bool all)
      : fabric_(fabric),
        nodes_(nodes),
        bytes_(static_cast<double>(element_bytes)),
        symmetry_(algorithm, call.operation, nodes, all) {
    const int n = static_cast<int>(nodes.size());
    members_.resize(index(symmetry_.members()));
    std::map<int, int> ranks_of_node;
    for (int m = 0; m < symmetry_.members(); ++m) {
      Member& member = members_[index(m)];
      member.schedule =
          make_schedule(call, n, m, algorithm, std::max<int64_t>(1, piece_bytes / element_bytes));
      for (const Step& step : member.schedule.steps) member.waits.push_back(step.waits);
      member.node = nodes[index(m)];
      const int place = ranks_of_node[member.node]++;
      const int core = fabric.cores_per_node > 0 ? place % fabric.cores_per_node : place;
      member.core = &cores_[{member.node, core}];
      ++member.core->ranks;
    }
  }

  double run() {
    for (int m = 0; m < std::ssize(members_); ++m)
      for (uint32_t s = 0; s < members_[index(m)].waits.size(); ++s)
        if (members_[index(m)].waits[s] == 0) at(0, Event::Kind::kReady, m, s);
    double end = 0;
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.kind == Event::Kind::kDone) end = std::max(end, event.time);
      (this->*kHandlers[static_cast<size_t>(event.kind)])(event);
    }
    return end;
  }

 private:
  struct Core {
    double free = 0;
    int ranks = 0;
  };
  struct Member {
    Schedule schedule;
    std::vector<uint32_t> waits;
    int node = 0;
    Core* core = nullptr;
  };
  struct Event {
    double time;
    uint64_t order;  // of equal times: as they were made
    int member;      // of kSent the stream
    uint32_t step;
    enum class Kind : uint8_t { kReady, kPosted, kArrived, kSent, kDone } kind;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct End {  // of a message: a step of a member
    int member = 0;
    uint32_t step = 0;
  };
  struct Ends {
    End send, receive;
  };
  // What one rank sends to one rank of another node: the first message is on its way.
  struct Stream {
    int from = 0, to = 0;  // nodes
    std::queue<Ends> messages;
    double left = 0, rate = 0, since = 0;  // bytes of the first at `since`, bytes per second
    uint64_t turn = 0;                     // of the event that ends it, where that still holds
  };
  using Key = std::tuple<int, int, uint32_t>;  // receiver, sender as it sees it, number

  uint64_t at(double time, Event::Kind kind, int member, uint32_t step) {
    events_.push({time, count_, member, step, kind});
    return count_++;
  }

  // The core's next time that is free, now or later. Sharing it costs a turn of each other rank.
  double occupy(Core& core, double time, double seconds) {
    const double wait = core.ranks > 1 ? fabric_.switch_seconds * (core.ranks - 1) : 0;
    core.free = std::max(core.free, time + wait) + seconds;
    return core.free;
  }

  // What it waited for is done: sums are made, messages are posted.
  void begin(const Event& event) {
    Member& member = members_[index(event.member)];
    const Step& step = member.schedule.steps[event.step];
    if (step.kind == Step::Kind::kSend || step.kind == Step::Kind::kReceive) {
      at(occupy(*member.core, event.time, fabric_.message_seconds), Event::Kind::kPosted, event.member,
         event.step);
      return;
    }
    const double operands = step.kind == Step::Kind::kAdd ? static_cast<double>(step.sources) - 1 : 1;
    // Pieces beyond this leave the cache before they are added.
    constexpr double kCached = 256 << 10, kLost = 0.2;  // of the speed, for each doubling
    const double doublings = std::max(0.0, std::log2(bytes_of(step) / kCached));
    const double seconds = operands * bytes_of(step) / fabric_.sum_bandwidth * (1 + kLost * doublings);
    at(occupy(*member.core, event.time, seconds), Event::Kind::kDone, event.member, event.step);
  }

  // When both ends are posted the message sets off.
  void meet(const Event& event) {
    const Member& member = members_[index(event.member)];
    const Step& step = member.schedule.steps[event.step];
    const bool sends = step.kind == Step::Kind::kSend;
    const auto [peer, seen] = symmetry_.seen_from(step.peer, event.member);
    const Key key = sends ? Key{peer, seen, step.message} : Key{event.member, step.peer, step.message};
    const End own{event.member, event.step};
    const auto [other, first] = posted_.try_emplace(key, own);
    if (first) return;
    const Ends ends = sends ? Ends{own, other->second} : Ends{other->second, own};
    posted_.erase(other);
    if (nodes_[index(members_[index(ends.send.member)].schedule.steps[ends.send.step].peer)] ==
        members_[index(ends.send.member)].node) {
      near_[{ends.receive.member, ends.receive.step}] = ends.send;
      at(event.time + fabric_.node.latency, Event::Kind::kArrived, ends.receive.member, ends.receive.step);
      return;
    }
    // Streams are told apart by the sender as the receiver sees it: several pairs may have one stand-in.
    const Member& receiver = members_[index(ends.receive.member)];
    const auto [found, fresh] =
        streams_by_pair_.try_emplace({ends.receive.member, receiver.schedule.steps[ends.receive.step].peer},
                                     static_cast<int>(streams_.size()));
    if (fresh) streams_.push_back({members_[index(ends.send.member)].node, receiver.node, {}, 0, 0, 0, 0});
    Stream& stream = streams_[index(found->second)];
    stream.messages.push(ends);
    if (stream.messages.size() == 1) enter(found->second, event.time);
  }

  // Inside a node: the receiver copies.
  void copy(const Event& event) {
    Member& receiver = members_[index(event.member)];
    const auto send = near_.extract({event.member, event.step}).mapped();
    const double bytes = bytes_of(receiver.schedule.steps[event.step]);
    const double end = occupy(*receiver.core, event.time, bytes / fabric_.node.bandwidth);
    at(end, Event::Kind::kDone, event.member, event.step);
    at(end, Event::Kind::kDone, send.member, send.step);
  }

  // The first message of a stream sets off.
  void enter(int which, double time) {
    Stream& stream = streams_[index(which)];
    const End& send = stream.messages.front().send;
    stream.left = bytes_of(members_[index(send.member)].schedule.steps[send.step]);
    stream.rate = 0;
    stream.since = time;
    leaving_[stream.from].push_back(which);
    arriving_[stream.to].push_back(which);
    share(stream, time);
  }

  // It is all sent, unless its rate has changed since.
  void leave(const Event& event) {
    Stream& stream = streams_[index(event.member)];
    if (stream.turn != event.order) return;
    const Ends ends = stream.messages.front();
    stream.messages.pop();
    std::erase(leaving_[stream.from], event.member);
    std::erase(arriving_[stream.to], event.member);
    stream.turn = 0;
    const double there = event.time + fabric_.network.latency;
    at(there, Event::Kind::kDone, ends.receive.member, ends.receive.step);
    at(there, Event::Kind::kDone, ends.send.member, ends.send.step);
    if (stream.messages.empty())
      share(stream, event.time);
    else
      enter(event.member, event.time);
  }

  // Rates of all that shares a link with this stream.
  void share(const Stream& stream, double time) {
    const std::vector<int>& out = leaving_[stream.from];
    const std::vector<int>& in = arriving_[stream.to];
    for (const int which : out) set_rate(which, time);
    for (const int which : in)
      if (streams_[index(which)].from != stream.from) set_rate(which, time);
  }

  void set_rate(int which, double time) {
    Stream& stream = streams_[index(which)];
    const size_t sharing = std::max(leaving_[stream.from].size(), arriving_[stream.to].size());
    const double rate = fabric_.network.bandwidth / static_cast<double>(sharing);
    if (rate == stream.rate) return;
    stream.left = std::max(0.0, stream.left - stream.rate * (time - stream.since));
    stream.rate = rate;
    stream.since = time;
    stream.turn = at(time + stream.left / rate, Event::Kind::kSent, which, 0);
  }

  void finish(const Event& event) {
    Member& member = members_[index(event.member)];
    const Step& step = member.schedule.steps[event.step];
    for (uint32_t i = step.first_next; i < step.first_next + step.nexts; ++i) {
      const uint32_t next = member.schedule.next[i];
      if (--member.waits[next] == 0) at(event.time, Event::Kind::kReady, event.member, next);
    }
  }

  double bytes_of(const Step& step) const { return static_cast<double>(step.elements) * bytes_; }

  using Handler = void (Play::*)(const Event&);
  static constexpr Handler kHandlers[] = {&Play::begin, &Play::meet, &Play::copy, &Play::leave,
                                          &Play::finish};

  const Fabric& fabric_;
  const Nodes& nodes_;
  const double bytes_;  // of an element
  const Symmetry symmetry_;
  std::vector<Member> members_;
  std::map<std::pair<int, int>, Core> cores_;
  std::deque<Stream> streams_;
  std::map<std::pair<int, int>, int> streams_by_pair_;
  std::map<int, std::vector<int>> leaving_, arriving_;  // streams whose first message is on its way, by node
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<Key, End> posted_;                     // ends whose other end is not
  std::map<std::pair<int, uint32_t>, End> near_;  // senders of messages inside nodes, by receiver and step
  uint64_t count_ = 1;
};

}  // namespace

double collective_seconds(const CollectiveCall& call, int64_t element_bytes, const Algorithm& algorithm,
                          int64_t piece_bytes, const Nodes& nodes, const Fabric& fabric, bool all) {
  return Play(call, element_bytes, algorithm, piece_bytes, nodes, fabric, all).run();
}

}  // namespace ingot::cost
