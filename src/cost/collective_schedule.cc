#include "cost/collective_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ingot::cost {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kFewSlots = 4;  // received parts that wait to be added: few, so that they stay in cache

size_t index(int64_t i) { return static_cast<size_t>(i); }

// A piece of the data: where this member's current value of it lies, and who wrote and reads that.
struct Cell {
  int64_t offset = 0, elements = 0;  // in the whole
  Place now;
  int slot = -1;  // where `now` is a slot
  uint32_t made = kNone;
  std::vector<uint32_t> sends;  // of the current value
};

struct Slot {
  Place place;
  bool held = false;
  uint32_t last = kNone;  // its last reader, when free
  int sent_in = -1;       // the round in which that was a message
};

class Builder {
 public:
  Builder(const CollectiveCall& call, int members, int member, const Algorithm& algorithm, int64_t piece)
      : call_(call), n_(members), me_(member), algorithm_(algorithm), piece_(std::max<int64_t>(piece, 1)) {}

  Schedule run() {
    switch (call_.operation) {
      case Collective::kBarrier:
        barrier();
        break;
      case Collective::kAllToAll:
        all_to_all();
        break;
      default:
        cut();
        for (size_t part = 0; part < parts_.size(); ++part) {
          part_ = part;
          move();
        }
    }
    return finish();
  }

 private:
  // The members along one dimension of the current part, and the cells that belong to each.
  struct Line {
    std::vector<int> members;
    std::vector<std::vector<uint32_t>> chunks;  // cells that end (sums) or begin (gathers) at each of them
    std::vector<uint32_t> all;
    int own = 0;
    int size() const { return static_cast<int>(members.size()); }
    int at(int digit) const { return (digit % size() + size()) % size(); }
  };

  // ---- patterns: what is asked of one dimension

  void scatter_sums(const Line& line, Pattern pattern) {
    const int d = line.size(), own = line.own;
    if (pattern == Pattern::kHalving) {
      int low = 0, high = d;
      for (int half = d / 2; half >= 1; half /= 2) {
        const int peer = own ^ half, middle = low + half;
        const bool upper = (own & half) != 0;
        ++round_;
        each(line, upper ? low : middle, upper ? middle : high, [&](Cell& c) { send(line, peer, c); });
        each(line, upper ? middle : low, upper ? high : middle,
             [&](Cell& c) { receive_add(line, {peer}, c); });
        (upper ? low : high) = middle;
      }
      return;
    }
    for (size_t piece = 0; piece < longest(line); ++piece) {
      if (pattern == Pattern::kRing) {
        for (int round = 0; round < d - 1; ++round) {
          ++round_;
          pick(line, own - 1 - round, piece, [&](Cell& c) { send(line, line.at(own + 1), c); });
          pick(line, own - 2 - round, piece, [&](Cell& c) { receive_add(line, {line.at(own - 1)}, c); });
        }
      } else {
        ++round_;
        for (int away = 1; away < d; ++away)
          pick(line, own + away, piece, [&](Cell& c) { send(line, line.at(own + away), c); });
        pick(line, own, piece, [&](Cell& c) { receive_add(line, others(line), c); });
      }
    }
  }

  void gather(const Line& line, Pattern pattern) {
    const int d = line.size(), own = line.own;
    if (pattern == Pattern::kHalving) {
      for (int held = 1; held < d; held *= 2) {
        const int peer = own ^ held, low = own & ~(held - 1), other = peer & ~(held - 1);
        each(line, low, low + held, [&](Cell& c) { send(line, peer, c); });
        each(line, other, other + held, [&](Cell& c) { receive(line, peer, c); });
      }
      return;
    }
    for (size_t piece = 0; piece < longest(line); ++piece) {
      for (int round = 0; round < d - 1; ++round) {
        const bool ring = pattern == Pattern::kRing;
        const int to = line.at(ring ? own + 1 : own + 1 + round),
                  from = line.at(ring ? own - 1 : own - 1 - round);
        pick(line, ring ? own - round : own, piece, [&](Cell& c) { send(line, to, c); });
        pick(line, own - 1 - round, piece, [&](Cell& c) { receive(line, from, c); });
      }
    }
  }

  void sum_everywhere(const Line& line, Pattern pattern) {
    for (const uint32_t cell : line.all) {
      Cell& c = cells_[cell];
      if (pattern == Pattern::kExchange) {
        for (int away = 1; away < line.size(); ++away) send(line, line.at(line.own + away), c);
        receive_add(line, others(line), c);
        continue;
      }
      int bit = 1;
      for (; bit < line.size() && (line.own & bit) == 0; bit *= 2)
        if (line.own + bit < line.size()) receive_add(line, {line.own + bit}, c);
      if (line.own != 0) {
        send(line, line.own - bit, c);
        receive(line, line.own - bit, c);
      }
      for (bit /= 2; bit >= 1; bit /= 2)
        if (line.own + bit < line.size()) send(line, line.own + bit, c);
    }
  }

  void spread(const Line& line, Pattern pattern, int root) {
    const int d = line.size(), away = line.at(line.own - root);
    for (const uint32_t cell : line.all) {
      Cell& c = cells_[cell];
      if (pattern == Pattern::kRing) {
        if (away > 0) receive(line, line.at(line.own - 1), c);
        if (away < d - 1) send(line, line.at(line.own + 1), c);
        continue;
      }
      if (pattern != Pattern::kTree) {
        for (int to = 1; away == 0 && to < d; ++to) send(line, line.at(root + to), c);
        if (away > 0) receive(line, root, c);
        continue;
      }
      int bit = 1;
      while (bit < d && (away & bit) == 0) bit *= 2;
      if (away != 0) receive(line, line.at(line.own - bit), c);
      for (bit /= 2; bit >= 1; bit /= 2)
        if (away + bit < d) send(line, line.at(line.own + bit), c);
    }
  }

  // ---- compositions over the dimensions

  void move() {
    const auto& dims = algorithm_.dimensions;
    const size_t last = dims.size() - 1;
    switch (call_.operation) {
      case Collective::kReduceScatter:
        for (size_t k = 0; k <= last; ++k) scatter_sums(line_of(k), pattern_of(k));
        break;
      case Collective::kAllGather:
        for (size_t k = last + 1; k-- > 0;) gather(line_of(k), pattern_of(k));
        break;
      case Collective::kAllReduce: {
        const size_t scattered = sums_whole() ? last : last + 1;
        for (size_t k = 0; k < scattered; ++k) scatter_sums(line_of(k), pattern_of(k));
        if (sums_whole()) sum_everywhere(line_of(last), pattern_of(last));
        for (size_t k = scattered; k-- > 0;) gather(line_of(k), pattern_of(k));
        break;
      }
      default:  // broadcast: along the last dimension from the root, then along each before it
        for (size_t k = last + 1; k-- > 0;) {
          bool takes_part = true;
          for (size_t j = 0; j < k; ++j) takes_part = takes_part && digit(me_, j) == digit(call_.root, j);
          if (takes_part) spread(line_of(k), pattern_of(k), along(line_of(k), digit(call_.root, k)));
        }
    }
  }

  void barrier() {
    uint32_t before = kNone;
    for (int away = 1; away < n_; away *= 2) {
      add_message(Step::Kind::kSend, (me_ + away) % n_, {}, 0, {before});
      before = add_message(Step::Kind::kReceive, (me_ + n_ - away) % n_, {}, 0, {before});
    }
  }

  void all_to_all() {
    std::vector<int64_t> from(index(n_) + 1, 0), to(index(n_) + 1, 0);
    for (size_t i = 0; i < index(n_); ++i) {
      from[i + 1] = from[i] + call_.sent[i];
      to[i + 1] = to[i] + call_.received[i];
    }
    const auto pieces = [&](int64_t elements, const auto& visit) {
      for (int64_t at = 0; at < elements; at += piece_) visit(at, std::min(piece_, elements - at));
    };
    pieces(call_.sent[index(me_)], [&](int64_t at, int64_t count) {
      copy({Area::kIn, from[index(me_)] + at}, {Area::kOut, to[index(me_)] + at}, count);
    });
    for (int away = 1; away < n_; ++away) {
      const int next = (me_ + away) % n_, before = (me_ + n_ - away) % n_;
      pieces(call_.sent[index(next)], [&](int64_t at, int64_t count) {
        add_message(Step::Kind::kSend, next, {Area::kIn, from[index(next)] + at}, count, {});
      });
      pieces(call_.received[index(before)], [&](int64_t at, int64_t count) {
        add_message(Step::Kind::kReceive, before, {Area::kOut, to[index(before)] + at}, count, {});
      });
    }
  }

  // ---- the data in cells

  struct Part {
    std::vector<size_t> order;  // of the dimensions
    bool backwards = false;
    std::vector<uint32_t> first;  // per block: its first cell; one more at the end
    std::vector<uint32_t> cells;
  };

  void cut() {
    const size_t dims = algorithm_.dimensions.size();
    for (size_t turn = 0; turn < (algorithm_.rotated ? dims : 1); ++turn) {
      for (int way = 0; way < (algorithm_.both_ways ? 2 : 1); ++way) {
        Part part;
        for (size_t k = 0; k < dims; ++k) part.order.push_back((k + turn) % dims);
        part.backwards = way == 1;
        parts_.push_back(std::move(part));
      }
    }
    const bool blocks_are_given =
        call_.operation == Collective::kReduceScatter || call_.operation == Collective::kAllGather;
    const int64_t parts = std::ssize(parts_);
    blocks_ = call_.operation == Collective::kBroadcast ? 1 : n_;
    if (sums_whole()) blocks_ /= algorithm_.dimensions.back().size;
    for (int64_t p = 0; p < parts; ++p) {
      Part& part = parts_[index(p)];
      for (int64_t block = 0; block < blocks_; ++block) {
        part.first.push_back(static_cast<uint32_t>(part.cells.size()));
        // Parts lie in each block where blocks are given, else blocks in each part.
        const int64_t outer = blocks_are_given ? block : p, outers = blocks_are_given ? blocks_ : parts;
        const int64_t inner = blocks_are_given ? p : block, inners = blocks_are_given ? parts : blocks_;
        const int64_t begin = call_.elements * outer / outers, end = call_.elements * (outer + 1) / outers;
        add_cells(part, begin + (end - begin) * inner / inners, begin + (end - begin) * (inner + 1) / inners);
      }
      part.first.push_back(static_cast<uint32_t>(part.cells.size()));
    }
    if (call_.operation == Collective::kAllGather) place_own_block();
  }

  void add_cells(Part& part, int64_t begin, int64_t end) {
    const int64_t pieces = (end - begin + piece_ - 1) / piece_;
    for (int64_t i = 0; i < pieces; ++i) {
      Cell cell;
      cell.offset = begin + (end - begin) * i / pieces;
      cell.elements = begin + (end - begin) * (i + 1) / pieces - cell.offset;
      cell.now = {Area::kIn, cell.offset};
      if (call_.operation == Collective::kBroadcast) cell.now.area = Area::kOut;
      part.cells.push_back(static_cast<uint32_t>(cells_.size()));
      cells_.push_back(std::move(cell));
    }
  }

  int64_t own_begin() const { return call_.elements / n_ * me_; }

  // all_gather: kIn holds the own block alone, which also belongs into kOut.
  void place_own_block() {
    for (const Part& part : parts_) {
      for (uint32_t i = part.first[index(me_)]; i < part.first[index(me_) + 1]; ++i) {
        Cell& cell = cells_[part.cells[i]];
        cell.now.offset = cell.offset - own_begin();
        copy(cell.now, {Area::kOut, cell.offset}, cell.elements);
      }
    }
  }

  // all_reduce that ends in a pattern by which every member gets the sum of all that is left at once.
  bool sums_whole() const {
    const Pattern last = algorithm_.dimensions.back().pattern;
    return call_.operation == Collective::kAllReduce &&
           (last == Pattern::kTree || last == Pattern::kExchange);
  }

  // ---- lines: dimension k is the k-th of the current part's order

  size_t dimension(size_t k) const { return parts_[part_].order[k]; }
  Pattern pattern_of(size_t k) const { return algorithm_.dimensions[dimension(k)].pattern; }
  int stride(size_t which) const {
    int product = 1;
    for (size_t j = 0; j < which; ++j) product *= algorithm_.dimensions[j].size;
    return product;
  }
  int digit(int member, size_t k) const {
    const size_t which = dimension(k);
    return member / stride(which) % algorithm_.dimensions[which].size;
  }
  // Position on the line of the member with this digit: lines run backwards in some parts.
  int along(const Line& line, int digit) const {
    return parts_[part_].backwards ? line.at(line.size() - 1 - digit) : digit;
  }

  Line line_of(size_t k) const {
    const size_t which = dimension(k);
    const Part& part = parts_[part_];
    Line line;
    line.members.resize(index(algorithm_.dimensions[which].size));
    line.chunks.resize(line.members.size());
    for (int d = 0; d < line.size(); ++d)
      line.members[index(along(line, d))] = me_ + (d - digit(me_, k)) * stride(which);
    line.own = along(line, digit(me_, k));
    for (int block = 0; block < blocks_; ++block) {
      const int owner = owner_of(block);
      bool mine = true;  // not another's already; of a broadcast everybody gets all
      for (size_t j = 0; j < k && call_.operation != Collective::kBroadcast; ++j)
        mine = mine && digit(owner, j) == digit(me_, j);
      if (!mine) continue;
      for (uint32_t i = part.first[index(block)]; i < part.first[index(block) + 1]; ++i) {
        line.chunks[index(along(line, digit(owner, k)))].push_back(part.cells[i]);
        line.all.push_back(part.cells[i]);
      }
    }
    return line;
  }

  // Whose block it is between the sums and the gathers. all_reduce may choose: its digits are those of the
  // member from last to first, so that what moves together lies together.
  int owner_of(int block) const {
    if (call_.operation != Collective::kAllReduce) return block;
    int owner = 0;
    for (size_t k = algorithm_.dimensions.size() - (sums_whole() ? 1 : 0); k-- > 0;) {
      const size_t which = dimension(k);
      const int size = algorithm_.dimensions[which].size;
      owner += block % size * stride(which);
      block /= size;
    }
    return owner;
  }

  // Chunks [low, high) of halving, as many as a power of 2, in an order that both partners share and that
  // looks the same from every member.
  template <class Visit>
  void each(const Line& line, int low, int high, const Visit& visit) {
    for (int i = 0; i < high - low; ++i)
      for (const uint32_t cell : line.chunks[index(low + (i ^ (line.own & (high - low - 1))))])
        visit(cells_[cell]);
  }
  template <class Visit>
  void pick(const Line& line, int digit, size_t piece, const Visit& visit) {
    const std::vector<uint32_t>& chunk = line.chunks[index(line.at(digit))];
    if (piece < chunk.size()) visit(cells_[chunk[piece]]);
  }
  static size_t longest(const Line& line) {
    size_t most = 0;
    for (const std::vector<uint32_t>& chunk : line.chunks) most = std::max(most, chunk.size());
    return most;
  }
  // From the one before this member on, backwards: the order in which they send to it.
  static std::vector<int> others(const Line& line) {
    std::vector<int> positions;
    for (int away = 1; away < line.size(); ++away) positions.push_back(line.at(line.own - away));
    return positions;
  }

  // ---- moves of one cell; peers are positions on the line

  void send(const Line& line, int peer, Cell& cell) {
    const uint32_t step =
        add_message(Step::Kind::kSend, line.members[index(peer)], cell.now, cell.elements, {cell.made});
    cell.sends.push_back(step);
    if (cell.slot >= 0) release(cell, step);  // a partial sum that this member is done with
  }

  void receive(const Line& line, int peer, Cell& cell) {
    std::vector<uint32_t> after = std::move(cell.sends);
    after.push_back(cell.made);
    cell.now = {Area::kOut, cell.offset};
    cell.made = add_message(Step::Kind::kReceive, line.members[index(peer)], cell.now, cell.elements,
                            std::move(after));
    cell.sends.clear();
  }

  // Adds what these members send to the cell, all in line order.
  void receive_add(const Line& line, std::vector<int> peers, Cell& cell) {
    std::vector<uint32_t> after = std::move(cell.sends);
    after.push_back(cell.made);
    std::vector<size_t> slots;
    for (const int peer : peers) {
      const size_t slot = take_slot(cell.elements);
      slots.push_back(slot);
      after.push_back(add_message(Step::Kind::kReceive, line.members[index(peer)], slots_[slot].place,
                                  cell.elements, {slots_[slot].last}));
    }
    Step step;
    step.kind = Step::Kind::kAdd;
    step.elements = cell.elements;
    step.first_source = static_cast<uint32_t>(schedule_.sources.size());
    step.sources = static_cast<uint32_t>(peers.size() + 1);
    for (int position = 0; position < line.size(); ++position) {
      const auto found = std::find(peers.begin(), peers.end(), position);
      if (position == line.own) schedule_.sources.push_back(cell.now);
      if (found != peers.end())
        schedule_.sources.push_back(slots_[slots[index(found - peers.begin())]].place);
    }
    const int kept = place_of_sum(cell, slots);
    step.to = cell.now;
    cell.made = add_step(step, std::move(after));
    for (const size_t slot : slots)
      if (static_cast<int>(slot) != kept) slots_[slot] = {slots_[slot].place, false, cell.made, -1};
    cell.slot = kept;
    cell.sends.clear();
  }

  // Where a new partial sum of the cell goes, as its `now`; returns the slot that is kept for it, or -1.
  int place_of_sum(Cell& cell, const std::vector<size_t>& slots) {
    if (call_.operation == Collective::kAllReduce) {
      cell.now = {Area::kOut, cell.offset};
      return -1;
    }
    const int64_t block = call_.elements / n_;
    if (cell.offset / block == me_) {
      cell.now = {Area::kOut, cell.offset - own_begin()};
      return -1;
    }
    const int kept = cell.slot >= 0 ? cell.slot : static_cast<int>(slots.front());
    cell.now = slots_[index(kept)].place;
    return kept;
  }

  void release(Cell& cell, uint32_t reader) {
    slots_[index(cell.slot)] = {slots_[index(cell.slot)].place, false, reader, round_};
    cell.slot = -1;
  }

  // A free slot, the one that was freed first; another one while there are few or none is free. What a
  // message of this round frees is not: two members that each wait for their own message before they take the
  // other's would wait for ever.
  size_t take_slot(int64_t elements) {
    size_t best = slots_.size();
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].held || slots_[i].sent_in == round_) continue;
      if (best == slots_.size() || before(slots_[i].last, slots_[best].last)) best = i;
    }
    const int64_t few = static_cast<int64_t>(kFewSlots) * piece_;
    if (best == slots_.size() || slots_.size() < kFewSlots || schedule_.scratch_elements < few) {
      best = slots_.size();
      slots_.push_back({{Area::kScratch, schedule_.scratch_elements}, false, kNone, -1});
      constexpr int64_t kLine = 64;  // elements: slots begin on cache lines of their own
      schedule_.scratch_elements += (std::max(elements, largest_cell()) + kLine - 1) / kLine * kLine;
    }
    slots_[best].held = true;
    return best;
  }
  static bool before(uint32_t a, uint32_t b) { return b != kNone && (a == kNone || a < b); }
  int64_t largest_cell() const {
    int64_t most = 0;
    for (const Cell& cell : cells_) most = std::max(most, cell.elements);
    return most;
  }

  // ---- steps

  void copy(Place from, Place to, int64_t elements) {
    Step step;
    step.elements = elements;
    step.to = to;
    step.first_source = static_cast<uint32_t>(schedule_.sources.size());
    step.sources = 1;
    schedule_.sources.push_back(from);
    add_step(step, {});
  }

  uint32_t add_message(Step::Kind kind, int peer, Place place, int64_t elements,
                       std::vector<uint32_t> after) {
    Step step;
    step.kind = kind;
    step.peer = peer;
    step.elements = elements;
    std::vector<uint32_t>& count = counts_[kind == Step::Kind::kSend ? 0 : 1];
    count.resize(index(n_));
    step.message = count[index(peer)]++;
    if (kind == Step::Kind::kSend) {
      step.first_source = static_cast<uint32_t>(schedule_.sources.size());
      step.sources = 1;
      schedule_.sources.push_back(place);
    } else {
      step.to = place;
    }
    return add_step(step, std::move(after));
  }

  uint32_t add_step(Step step, std::vector<uint32_t> after) {
    std::erase(after, kNone);
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    step.waits = static_cast<uint32_t>(after.size());
    for (const uint32_t earlier : after)
      edges_.push_back({earlier, static_cast<uint32_t>(schedule_.steps.size())});
    schedule_.steps.push_back(step);
    return static_cast<uint32_t>(schedule_.steps.size() - 1);
  }

  Schedule finish() {
    std::sort(edges_.begin(), edges_.end());
    for (const auto& [earlier, later] : edges_) {
      Step& step = schedule_.steps[earlier];
      if (step.nexts++ == 0) step.first_next = static_cast<uint32_t>(schedule_.next.size());
      schedule_.next.push_back(later);
    }
    return std::move(schedule_);
  }

  const CollectiveCall& call_;
  const int n_, me_;
  const Algorithm& algorithm_;
  const int64_t piece_;
  Schedule schedule_;
  std::vector<Cell> cells_;
  std::vector<Part> parts_;
  int64_t blocks_ = 1;
  size_t part_ = 0;
  std::vector<Slot> slots_;
  int round_ = 0;
  std::vector<uint32_t> counts_[2];  // messages sent to, received from each member
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
};

struct PatternRow {
  Pattern pattern;
  const char* name;
  bool scatters, spreads,
      whole;  // serves reduce_scatter and all_gather; broadcast; all_reduce of all that is left
  bool power_of_two, at_once;
};
constexpr PatternRow kPatterns[] = {
    {Pattern::kRing, "ring", true, true, false, false, false},
    {Pattern::kHalving, "halving", true, false, false, true, false},
    {Pattern::kDirect, "direct", true, true, false, false, true},
    {Pattern::kTree, "tree", false, true, true, false, false},
    {Pattern::kExchange, "exchange", false, false, true, false, true},
};
const PatternRow& row(Pattern pattern) { return kPatterns[static_cast<size_t>(pattern)]; }

}  // namespace

const char* name_of(Pattern pattern) { return row(pattern).name; }

const char* name_of(Collective operation) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                    "all_to_all", "broadcast",      "barrier"};
  return kNames[static_cast<size_t>(operation)];
}

std::string name_of(const Algorithm& algorithm) {
  std::string text = algorithm.rotated ? "rotated " : "";
  if (algorithm.both_ways) text += "two-way ";
  const bool flat = algorithm.dimensions.size() == 1;
  for (size_t k = 0; k < algorithm.dimensions.size(); ++k) {
    const auto& [size, pattern] = algorithm.dimensions[k];
    text += flat ? name_of(pattern) : fmt::format("{}{} {}", k == 0 ? "" : " x ", name_of(pattern), size);
  }
  return text;
}

bool applies(const Algorithm& algorithm, Collective operation, int members, bool at_once) {
  const auto& dims = algorithm.dimensions;
  int64_t product = 1;
  for (const Dimension& dimension : dims) product *= std::max(dimension.size, 1);
  if (members < 2 || product != members || (algorithm.rotated && dims.size() < 2)) return false;
  const bool plain = dims.size() == 1 && !algorithm.both_ways;
  if (operation == Collective::kBarrier) return plain && dims[0].pattern == Pattern::kTree;
  if (operation == Collective::kAllToAll) return plain && dims[0].pattern == Pattern::kDirect;
  for (size_t k = 0; k < dims.size(); ++k) {
    const PatternRow& pattern = row(dims[k].pattern);
    const bool last = k + 1 == dims.size() && !algorithm.rotated;
    const bool serves =
        operation == Collective::kBroadcast
            ? pattern.spreads
            : pattern.scatters || (pattern.whole && last && operation == Collective::kAllReduce);
    if (!serves || (pattern.power_of_two && !std::has_single_bit(static_cast<unsigned>(dims[k].size))))
      return false;
    if (at_once && operation != Collective::kBroadcast && operation != Collective::kAllGather &&
        !(pattern.at_once && dims.size() == 1))
      return false;
  }
  return true;
}

int64_t Schedule::sent_elements() const {
  int64_t sum = 0;
  for (const Step& step : steps)
    if (step.kind == Step::Kind::kSend) sum += step.elements;
  return sum;
}

Schedule make_schedule(const CollectiveCall& call, int members, int member, const Algorithm& algorithm,
                       int64_t piece) {
  INGOT_CHECK(applies(algorithm, call.operation, members), "{} over {} members by {}",
              name_of(call.operation), members, name_of(algorithm));
  INGOT_CHECK(member >= 0 && member < members, "member {} of {}", member, members);
  return Builder(call, members, member, algorithm, piece).run();
}

}  // namespace ingot::cost
