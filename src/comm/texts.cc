#include "comm/texts.h"

namespace ingot::comm {
namespace {

constexpr int kTextTag = 7;

TensorView bytes_of(std::string& text) {
  return {text.data(), tensor::DType::kU8, tensor::Shape{static_cast<int64_t>(text.size())}};
}

TensorView numbers_of(std::span<int64_t> numbers) {
  return {numbers.data(), tensor::DType::kI64, tensor::Shape{static_cast<int64_t>(numbers.size())}};
}

Result<std::vector<int64_t>> lengths_of_all(Communicator& group, const std::string& own,
                                            const CallOptions& options) {
  auto length = static_cast<int64_t>(own.size());
  std::vector<int64_t> lengths(static_cast<size_t>(group.size()));
  INGOT_TRY_VOID(group.all_gather(numbers_of({&length, 1}), numbers_of(lengths), 0, options));
  return lengths;
}

// One character before the text: what it is.
constexpr char kValue = 'v', kFirstError = 'A';

std::string packed(const Result<std::string>& result) {
  if (result) return kValue + *result;
  const auto code = static_cast<char>(kFirstError + static_cast<int>(result.error().code));
  return code + result.error().message;
}

Result<std::string> unpacked(const std::string& text) {
  INGOT_CHECK(!text.empty(), "a result without its kind");
  if (text[0] == kValue) return text.substr(1);
  return Error{static_cast<ErrorCode>(text[0] - kFirstError), text.substr(1)};
}

std::vector<Result<std::string>> unpacked(const std::vector<std::string>& texts) {
  std::vector<Result<std::string>> results;
  for (const std::string& text : texts) results.push_back(unpacked(text));
  return results;
}

}  // namespace

Result<std::vector<std::string>> gather_texts(Communicator& group, const std::string& own, int root,
                                              const CallOptions& options) {
  INGOT_TRY(const std::vector<int64_t> lengths, lengths_of_all(group, own, options));
  std::vector<std::string> texts;
  if (group.index() != root) {
    std::string copy = own;
    if (!copy.empty()) INGOT_TRY_VOID(group.send(bytes_of(copy), root, kTextTag, options));
    return texts;
  }
  texts.resize(lengths.size());
  for (int member = 0; member < group.size(); ++member) {
    std::string& text = texts[static_cast<size_t>(member)];
    if (member == root) {
      text = own;
      continue;
    }
    text.resize(static_cast<size_t>(lengths[static_cast<size_t>(member)]));
    if (!text.empty()) INGOT_TRY_VOID(group.receive(bytes_of(text), member, kTextTag, options));
  }
  return texts;
}

Result<std::string> broadcast_text(Communicator& group, const std::string& text, int root,
                                   const CallOptions& options) {
  auto length = static_cast<int64_t>(text.size());
  INGOT_TRY_VOID(group.broadcast(numbers_of({&length, 1}), root, options));
  std::string out = group.index() == root ? text : std::string(static_cast<size_t>(length), '\0');
  if (!out.empty()) INGOT_TRY_VOID(group.broadcast(bytes_of(out), root, options));
  return out;
}

Result<std::vector<std::string>> exchange_texts(Communicator& group, const std::string& own,
                                                const CallOptions& options) {
  INGOT_TRY(const std::vector<int64_t> lengths, lengths_of_all(group, own, options));
  INGOT_TRY(const std::vector<std::string> gathered, gather_texts(group, own, 0, options));
  std::string joined;
  for (const std::string& text : gathered) joined += text;
  INGOT_TRY(joined, broadcast_text(group, joined, 0, options));
  std::vector<std::string> texts;
  size_t first = 0;
  for (const int64_t length : lengths) {
    texts.push_back(joined.substr(first, static_cast<size_t>(length)));
    first += static_cast<size_t>(length);
  }
  return texts;
}

Result<std::string> broadcast_result(Communicator& group, const Result<std::string>& own, int root,
                                     const CallOptions& options) {
  INGOT_TRY(const std::string text, broadcast_text(group, packed(own), root, options));
  return unpacked(text);
}

Result<std::vector<Result<std::string>>> gather_results(Communicator& group, const Result<std::string>& own,
                                                        int root, const CallOptions& options) {
  INGOT_TRY(const std::vector<std::string> texts, gather_texts(group, packed(own), root, options));
  return unpacked(texts);
}

Result<std::vector<Result<std::string>>> exchange_results(Communicator& group, const Result<std::string>& own,
                                                          const CallOptions& options) {
  INGOT_TRY(const std::vector<std::string> texts, exchange_texts(group, packed(own), options));
  return unpacked(texts);
}

}  // namespace ingot::comm
