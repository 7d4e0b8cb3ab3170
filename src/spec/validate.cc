#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "spec/config.h"
#include "spec/fields.h"
#include "spec/names.h"

namespace ingot::spec {
namespace {

// Collects contradictions; a field is named by its address, so that the words are those of the family.
class Checker {
 public:
  explicit Checker(const RunSpec& spec) : spec_(spec), fields_(bind_fields(&spec_)) {}

  const RunSpec& spec() const { return spec_; }

  template <class T>
  std::string key(const T& object) const {
    return field(&object).key();
  }

  // "model.n_embd = 384"
  template <class T>
  std::string said(const T& object) const {
    const BoundField& bound = field(&object);
    const std::string value = bound.write();
    return value.empty() ? bound.key() : bound.key() + " = " + value;
  }

  template <class T>
  void expect(bool good, const T& object, const std::string& text) {
    if (!good) mistakes_.push_back({"", said(object), text});
  }

  std::vector<Mistake> take() { return std::move(mistakes_); }

 private:
  const BoundField& field(const void* object) const {
    for (const BoundField& one : fields_) {
      if (one.object == object) return one;
    }
    INGOT_CHECK(false, "a check names what is no field of family {}", spec_.model.family);
    return fields_.front();
  }

  RunSpec spec_;
  std::vector<BoundField> fields_;
  std::vector<Mistake> mistakes_;
};

void check_family(Checker* c) {
  const ModelSpec& m = c->spec().model;
  const auto families = known_families();
  if (std::find(families.begin(), families.end(), m.family) != families.end()) return;
  const std::string near = nearest_name(m.family, {families.begin(), families.end()});
  c->expect(false, m.family,
            near.empty() ? fmt::format("unknown family; there are {}", fmt::join(families, ", "))
                         : fmt::format("unknown family; did you mean {}?", near));
}

void check_shape(Checker* c) {
  const ModelSpec& m = c->spec().model;
  const bool gpt2 = m.family == "gpt2";
  c->expect(m.attention_dropout == 0, m.attention_dropout,
            "dropout of attention weights is not supported; set it to 0 (resid_pdrop and embd_pdrop work)");
  c->expect(gpt2 == (m.activation != Activation::kSilu), m.activation,
            gpt2 ? "gpt2 has gelu_new or gelu" : "llama has silu (SwiGLU)");
  if (!m.is_sized()) {
    c->expect(m.num_layers == 0 && m.num_heads == 0, m.hidden_size,
              "must be set with the other sizes of the model");
    return;
  }
  c->expect(m.num_layers > 0, m.num_layers, fmt::format("must be set beside {}", c->said(m.hidden_size)));
  c->expect(m.num_heads > 0, m.num_heads, fmt::format("must be set beside {}", c->said(m.hidden_size)));
  if (m.num_heads <= 0) return;
  c->expect(m.head_dim > 0, m.num_heads,
            fmt::format("does not divide {}; nearest that do: {}", c->said(m.hidden_size),
                        nearest_divisors(m.hidden_size, m.num_heads)));
  if (gpt2) {
    c->expect(
        c->spec().data.seq_len <= m.max_positions, c->spec().data.seq_len,
        fmt::format("is longer than {}; use at most that, or more positions", c->said(m.max_positions)));
  } else {
    c->expect(m.num_kv_heads > 0 && m.num_heads % m.num_kv_heads == 0, m.num_kv_heads,
              fmt::format("does not divide {}; nearest that do: {}", c->said(m.num_heads),
                          nearest_divisors(m.num_heads, m.num_kv_heads)));
    c->expect(m.head_dim % 2 == 0, m.head_dim, "must be even: rotary embedding turns pairs");
    if (m.rope_scaling) {
      c->expect(m.rope_scaling->high_freq_factor > m.rope_scaling->low_freq_factor, m.rope_scaling,
                "needs high_freq_factor above low_freq_factor");
    }
  }
  c->expect(m.num_heads % c->spec().parallel.tp == 0, c->spec().parallel.tp,
            fmt::format("does not divide {}; nearest that do: {}", c->said(m.num_heads),
                        nearest_divisors(m.num_heads, c->spec().parallel.tp)));
  c->expect(c->spec().parallel.pp <= std::max<int64_t>(1, m.num_layers), c->spec().parallel.pp,
            fmt::format("is more than {}", c->said(m.num_layers)));
}

// A rank of cp takes one part from the head of a sequence and one from its tail.
void check_context(Checker* c) {
  const int64_t seq_len = c->spec().data.seq_len, cp = c->spec().parallel.cp, parts = 2 * cp;
  if (cp == 1) return;
  const int64_t below = seq_len / parts * parts;
  c->expect(below == seq_len, c->spec().data.seq_len,
            fmt::format("does not divide into {} parts, two for each rank of {}; nearest that do: {}{}",
                        parts, c->said(c->spec().parallel.cp), below > 0 ? fmt::format("{}, ", below) : "",
                        below + parts));
}

void check_batch(Checker* c) {
  const TrainSpec& t = c->spec().train;
  const int64_t seq_len = c->spec().data.seq_len;
  c->expect(!t.global_batch_size || !t.global_batch_tokens, t.global_batch_tokens,
            fmt::format("contradicts {}; keep one of the two", c->said(t.global_batch_size)));
  if (t.global_batch_tokens) {
    c->expect(*t.global_batch_tokens % seq_len == 0, t.global_batch_tokens,
              fmt::format("is not a multiple of {}; nearest that are: {}", c->said(c->spec().data.seq_len),
                          *t.global_batch_tokens < seq_len
                              ? fmt::format("{}", seq_len)
                              : fmt::format("{}, {}", *t.global_batch_tokens / seq_len * seq_len,
                                            (*t.global_batch_tokens / seq_len + 1) * seq_len)));
  }
  if (t.micro_batch_size && t.max_micro_batch_size) {
    c->expect(*t.micro_batch_size <= *t.max_micro_batch_size, t.micro_batch_size,
              fmt::format("is more than {}", c->said(t.max_micro_batch_size)));
  }
}

// global_batch_size = micro_batch_size · dp · (a whole number of micro-batches).
void check_batch_split(Checker* c, int64_t dp) {
  const TrainSpec& t = c->spec().train;
  const auto samples = global_batch_samples(c->spec());
  if (!samples || (t.global_batch_size && t.global_batch_tokens)) return;
  const int64_t micro = t.micro_batch_size.value_or(1);
  int64_t unit = 0;
  const bool fits = !__builtin_mul_overflow(micro, dp, &unit);
  if (fits && *samples % unit == 0) return;
  const std::string why = fmt::format(
      "{} samples are not a multiple of {} {} x dp {}{}; nearest that are: {}", *samples,
      t.micro_batch_size ? "micro_batch_size" : "micro-batch", micro, dp,
      fits ? fmt::format(" = {}", unit) : "",
      !fits             ? "none"
      : *samples < unit ? fmt::format("{}", unit)
                        : fmt::format("{}, {}", *samples / unit * unit, (*samples / unit + 1) * unit));
  if (t.global_batch_size) {
    c->expect(false, t.global_batch_size, why);
  } else {
    c->expect(false, t.global_batch_tokens, why);
  }
}

void check_schedule(Checker* c) {
  const ScheduleSpec& s = c->spec().schedule;
  const TrainSpec& t = c->spec().train;
  if (s.min_lr) {
    c->expect(*s.min_lr <= c->spec().optimizer.learning_rate, s.min_lr,
              fmt::format("is more than {}", c->said(c->spec().optimizer.learning_rate)));
  }
  if (s.warmup_steps && t.train_steps) {
    c->expect(*s.warmup_steps <= *t.train_steps, s.warmup_steps,
              fmt::format("is more than {}", c->said(t.train_steps)));
  }
  if (s.wsd_decay_steps && t.train_steps) {
    c->expect(*s.wsd_decay_steps + s.warmup_steps.value_or(0) <= *t.train_steps, s.wsd_decay_steps,
              fmt::format("and the warm-up are more than {}", c->said(t.train_steps)));
  }
}

void place_mistakes(const LoadedSpec& loaded, std::vector<Mistake>* mistakes) {
  for (Mistake& one : *mistakes) {
    const std::string key = one.subject.substr(0, one.subject.find(" = "));
    one.place = "default";
    for (const Origin& origin : loaded.origins) {
      if (origin.key == key) one.place = origin.place;
    }
  }
}

}  // namespace

std::string nearest_divisors(int64_t n, int64_t wanted) {
  int64_t below = 0, above = 0;
  const auto consider = [&](int64_t d) {
    if (d <= wanted && d > below) below = d;
    if (d >= wanted && (above == 0 || d < above)) above = d;
  };
  for (int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    consider(d);
    consider(n / d);
  }
  if (below == 0 && above == 0) return "none";
  if (below == 0 || above == 0 || below == above) return fmt::format("{}", std::max(below, above));
  return fmt::format("{}, {}", below, above);
}

std::optional<int64_t> global_batch_samples(const RunSpec& spec) {
  if (spec.train.global_batch_size) return spec.train.global_batch_size;
  if (spec.train.global_batch_tokens) return *spec.train.global_batch_tokens / spec.data.seq_len;
  return std::nullopt;
}

std::vector<Mistake> validate(const RunSpec& spec) {
  Checker c(spec);
  check_family(&c);
  check_shape(&c);
  check_context(&c);
  check_batch(&c);
  check_batch_split(&c, spec.parallel.dp.value_or(1));
  check_schedule(&c);
  return c.take();
}

Result<Layout> check_layout(const LoadedSpec& loaded, int64_t world_size) {
  INGOT_CHECK(world_size >= 1, "a world of {} ranks", world_size);
  Checker c(loaded.spec);
  const ParallelSpec& p = c.spec().parallel;
  Layout layout{.dp = 1, .tp = p.tp, .pp = p.pp, .cp = p.cp, .ep = p.ep};
  const auto ranks = [world_size] { return fmt::format("this run has {}", world_size); };
  // Each degree is at most 2^20 and the running product at most the world, so nothing overflows.
  int64_t product = 1;
  bool fits = true;
  const auto multiply = [&](const int64_t& degree, const int64_t& object) {
    if (!fits) return;
    product *= degree;
    fits = product <= world_size && world_size % product == 0;
    c.expect(fits, object,
             fmt::format("needs a multiple of {} ranks, {}; nearest degrees: {}", product, ranks(),
                         nearest_divisors(world_size / std::max<int64_t>(1, product / degree), degree)));
  };
  multiply(p.tp, p.tp);
  multiply(p.cp, p.cp);
  multiply(p.pp, p.pp);
  if (fits) {
    layout.dp = p.dp.value_or(world_size / product);
    c.expect(layout.dp == world_size / product, p.dp,
             fmt::format("with tp {}, cp {}, pp {} needs {} ranks, {}; use dp = {}", p.tp, p.cp, p.pp,
                         product * layout.dp, ranks(), world_size / product));
    c.expect((layout.dp * layout.cp) % p.ep == 0, p.ep,
             fmt::format("must divide dp x cp = {}", layout.dp * layout.cp));
    check_batch_split(&c, layout.dp);
  }
  std::vector<Mistake> mistakes = c.take();
  if (mistakes.empty()) return layout;
  place_mistakes(loaded, &mistakes);
  return invalid(render_mistakes(mistakes));
}

}  // namespace ingot::spec
