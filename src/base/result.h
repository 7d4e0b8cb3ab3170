#pragma once
// Result<T>: the value of an operation that can fail, or an Error with a code and a sentence. Spelled as
// std::expected, which g++ 12 has only in C++23. Context is added on the way up; the code says what a caller
// may do.
//
//   Result<Config> load(const std::string& path) {
//     INGOT_TRY(std::string text, read_file(path));           // returns the error as it is
//     return parse(text).context("in " + path);               // adds where
//   }

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace ingot {

enum class ErrorCode : unsigned char {
  kInvalid,      // a user's mistake: wrong usage, configuration or input; never retry
  kNotFound,     // the thing named is not there
  kCorrupt,      // bytes do not match their checksum or format
  kIo,           // the system refused: full disk, permission, network
  kUnavailable,  // may work later: retry with back-off
  kFault,        // device or collective fault: restart
};

struct Error {
  ErrorCode code = ErrorCode::kInvalid;
  std::string message;  // a sentence: what, where, and what to do

  Error context(const std::string& where) && {
    message = where + ": " + message;
    return std::move(*this);
  }
};

inline Error invalid(std::string message) { return {ErrorCode::kInvalid, std::move(message)}; }
inline Error not_found(std::string message) { return {ErrorCode::kNotFound, std::move(message)}; }
inline Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }
inline Error io_error(std::string message) { return {ErrorCode::kIo, std::move(message)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    INGOT_CHECK(has_value(), "value() of a failed Result: {}", std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    INGOT_CHECK(has_value(), "value() of a failed Result: {}", std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    INGOT_CHECK(!has_value(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }
  Error take_error() && {
    INGOT_CHECK(!has_value(), "take_error() of a Result that holds a value");
    return std::move(std::get<1>(state_));
  }
  Result context(const std::string& where) && {
    if (has_value()) return std::move(*this);
    return std::move(std::get<1>(state_)).context(where);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    INGOT_CHECK(error_.has_value(), "error() of a Result that succeeded");
    return *error_;
  }
  Error take_error() && {
    INGOT_CHECK(error_.has_value(), "take_error() of a Result that succeeded");
    return std::move(*error_);
  }
  Result context(const std::string& where) && {
    if (error_) return std::move(*error_).context(where);
    return {};
  }

 private:
  std::optional<Error> error_;
};

}  // namespace ingot

#define INGOT_CONCAT_INNER(a, b) a##b
#define INGOT_CONCAT(a, b) INGOT_CONCAT_INNER(a, b)

// INGOT_TRY(declaration, expression): declares the value, or returns the error from the enclosing function.
#define INGOT_TRY(declaration, expression) \
  INGOT_TRY_NAMED(INGOT_CONCAT(result_, __LINE__), declaration, expression)
#define INGOT_TRY_NAMED(name, declaration, expression) \
  auto name = (expression);                            \
  if (!name) return std::move(name).take_error();      \
  declaration = std::move(name).value()

// INGOT_TRY_VOID(expression): returns the error of a Result<void>, if any.
#define INGOT_TRY_VOID(expression) INGOT_TRY_VOID_NAMED(INGOT_CONCAT(failed_, __LINE__), expression)
#define INGOT_TRY_VOID_NAMED(name, expression)                                        \
  do {                                                                                \
    if (auto name = (expression); !name) return std::move(name).take_error();         \
  } while (false)
