#include "data/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace ingot::data {
namespace {

constexpr size_t kInputBytes = size_t{1} << 18;

std::string shown_name(const std::string& path) { return path == "-" ? "standard input" : path; }

// The stored bytes, with the first few kept for looking at.
class StoredBytes {
 public:
  static Result<std::unique_ptr<StoredBytes>> open(const std::string& path) {
    int fd = STDIN_FILENO;
    if (path != "-") {
      fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) return io_error(fmt::format("{} cannot be opened: {}", path, std::strerror(errno)));
      (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    auto stored = std::unique_ptr<StoredBytes>(new StoredBytes(path, fd));
    INGOT_TRY_VOID(stored->refill());
    return stored;
  }
  ~StoredBytes() {
    if (fd_ != STDIN_FILENO) ::close(fd_);
  }
  StoredBytes(const StoredBytes&) = delete;
  StoredBytes& operator=(const StoredBytes&) = delete;

  std::span<const char> available() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void consume(size_t bytes) {
    begin_ += bytes;
    consumed_ += static_cast<int64_t>(bytes);
  }
  int64_t consumed() const { return consumed_; }
  std::string name() const { return shown_name(path_); }

  // Adds bytes behind those available; false at the end of the file.
  Result<bool> refill() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == buffer_.size()) return true;
    INGOT_TRY(const size_t got, read_some(std::span(buffer_).subspan(end_)));
    end_ += got;
    return got > 0;
  }

  // The same past the buffer, which must be empty: how many bytes went to `out`, 0 at the end of the file.
  Result<size_t> read_past(std::span<char> out) {
    INGOT_TRY(const size_t got, read_some(out));
    consumed_ += static_cast<int64_t>(got);
    return got;
  }

  // Bytes at hand, at least `wanted` unless the file ends before.
  Result<std::string_view> look(size_t wanted) {
    while (end_ - begin_ < wanted) {
      INGOT_TRY(const bool more, refill());
      if (!more) break;
    }
    return std::string_view(buffer_.data() + begin_, end_ - begin_);
  }

 private:
  Result<size_t> read_some(std::span<char> out) {
    while (true) {
      const ssize_t got = ::read(fd_, out.data(), out.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EINTR) continue;
      return io_error(fmt::format("{} cannot be read after byte {}: {}", name(),
                                  format_integer(consumed_ + static_cast<int64_t>(end_ - begin_)),
                                  std::strerror(errno)));
    }
  }

  StoredBytes(std::string path, int fd) : path_(std::move(path)), fd_(fd), buffer_(kInputBytes) {}
  std::string path_;
  int fd_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t consumed_ = 0;
};

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {}
  Result<size_t> read(std::span<char> out) override {
    if (stored_->available().empty()) return stored_->read_past(out);
    const size_t bytes = std::min(out.size(), stored_->available().size());
    std::memcpy(out.data(), stored_->available().data(), bytes);
    stored_->consume(bytes);
    return bytes;
  }
  int64_t stored_bytes_read() const override { return stored_->consumed(); }

 private:
  std::unique_ptr<StoredBytes> stored_;
};

Error torn(const StoredBytes& stored, std::string_view kind) {
  return corrupt(
      fmt::format("{} is torn: its {} data ends in the middle, at byte {}. Copy or download it again",
                  stored.name(), kind, format_integer(stored.consumed())));
}

Error damaged(const StoredBytes& stored, std::string_view kind, std::string_view library_words) {
  return corrupt(fmt::format(
      "{} is damaged: its {} data is wrong between bytes {} and {} ({}). Copy or download it "
      "again",
      stored.name(), kind, format_integer(stored.consumed()),
      format_integer(stored.consumed() + static_cast<int64_t>(stored.available().size())), library_words));
}

// gzip (RFC 1952), any number of members; dictzip is gzip with an extra field.
class GzipSource final : public ByteSource {
 public:
  static Result<std::unique_ptr<ByteSource>> open(std::unique_ptr<StoredBytes> stored) {
    auto source = std::unique_ptr<GzipSource>(new GzipSource(std::move(stored)));
    constexpr int kGzipOnly = 15 + 16;
    if (inflateInit2(&source->stream_, kGzipOnly) != Z_OK) {
      return io_error("zlib could not start; is memory exhausted?");
    }
    source->started_ = true;
    return std::unique_ptr<ByteSource>(std::move(source));
  }
  ~GzipSource() override {
    if (started_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  Result<size_t> read(std::span<char> out) override {
    if (ended_ || out.empty()) return size_t{0};
    const size_t limit = std::min(out.size(), size_t{1} << 30);
    size_t made = 0;
    while (made == 0) {
      if (stored_->available().empty()) {
        INGOT_TRY(const bool more, stored_->refill());
        if (!more) return torn(*stored_, "gzip");
      }
      INGOT_TRY(made, inflate_some(out.first(limit)));
      if (ended_) break;
    }
    return made;
  }
  int64_t stored_bytes_read() const override { return stored_->consumed(); }

 private:
  explicit GzipSource(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {}

  Result<size_t> inflate_some(std::span<char> out) {
    const std::span<const char> input = stored_->available();
    // zlib's interface wants a pointer to non-const and does not write through it.
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    stored_->consume(input.size() - stream_.avail_in);
    const size_t made = out.size() - stream_.avail_out;
    if (code == Z_STREAM_END) INGOT_TRY_VOID(next_member());
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return damaged(*stored_, "gzip", stream_.msg != nullptr ? stream_.msg : "zlib gives no reason");
    }
    return made;
  }

  // After a member: another one, zero padding (tapes, block devices), or the end.
  Result<void> next_member() {
    while (true) {
      INGOT_TRY(const std::string_view front, stored_->look(2));
      if (front.empty()) {
        ended_ = true;
        return {};
      }
      if (front.starts_with("\x1f\x8b")) {
        if (inflateReset(&stream_) != Z_OK) return damaged(*stored_, "gzip", "zlib cannot go on");
        return {};
      }
      const size_t zeros = std::min(front.find_first_not_of('\0'), front.size());
      if (zeros == 0) {
        if (front.size() < 2 && front[0] == '\x1f') return torn(*stored_, "gzip");
        return damaged(*stored_, "gzip", "what follows a member is not another member");
      }
      stored_->consume(zeros);
    }
  }

  std::unique_ptr<StoredBytes> stored_;
  z_stream stream_{};
  bool started_ = false;
  bool ended_ = false;
};

// Zstandard (RFC 8878), any number of frames, skippable ones too.
class ZstdSource final : public ByteSource {
 public:
  static Result<std::unique_ptr<ByteSource>> open(std::unique_ptr<StoredBytes> stored) {
    auto source = std::unique_ptr<ZstdSource>(new ZstdSource(std::move(stored)));
    source->context_ = ZSTD_createDCtx();
    if (source->context_ == nullptr) return io_error("libzstd could not start; is memory exhausted?");
    // Corpora are often made with --long=31; the library refuses windows over 2^27 unless told.
    (void)ZSTD_DCtx_setParameter(source->context_, ZSTD_d_windowLogMax, 31);
    return std::unique_ptr<ByteSource>(std::move(source));
  }
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  Result<size_t> read(std::span<char> out) override {
    if (out.empty()) return size_t{0};
    while (true) {
      if (stored_->available().empty()) {
        INGOT_TRY(const bool more, stored_->refill());
        // With input at its end there may still be output that did not fit before.
        if (!more && frame_ended_) return size_t{0};
        if (!more && !output_was_full_) return torn(*stored_, "Zstandard");
      }
      const std::span<const char> bytes = stored_->available();
      ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
      ZSTD_outBuffer output{out.data(), out.size(), 0};
      const size_t code = ZSTD_decompressStream(context_, &output, &input);
      stored_->consume(input.pos);
      if (ZSTD_isError(code) != 0) return damaged(*stored_, "Zstandard", ZSTD_getErrorName(code));
      frame_ended_ = code == 0;
      output_was_full_ = output.pos == output.size;
      if (output.pos > 0) return output.pos;
    }
  }
  int64_t stored_bytes_read() const override { return stored_->consumed(); }

 private:
  explicit ZstdSource(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {}
  std::unique_ptr<StoredBytes> stored_;
  ZSTD_DCtx* context_ = nullptr;
  bool frame_ended_ = false;
  bool output_was_full_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_byte_source(const std::string& path) {
  INGOT_TRY(std::unique_ptr<StoredBytes> stored, StoredBytes::open(path));
  INGOT_TRY(const std::string_view front, stored->look(4));
  const bool gzip = front.starts_with("\x1f\x8b");
  const bool zstd = front.starts_with("\x28\xb5\x2f\xfd") ||
                    (front.size() >= 4 && (static_cast<unsigned char>(front[0]) & 0xF0) == 0x50 &&
                     front.substr(1, 3) == "\x2a\x4d\x18");
  if (gzip) return GzipSource::open(std::move(stored));
  if (zstd) return ZstdSource::open(std::move(stored));
  if (path.ends_with(".gz") || path.ends_with(".dz") || path.ends_with(".zst")) {
    return corrupt(
        fmt::format("{} is named as compressed, but its first bytes are neither gzip nor Zstandard. "
                    "Rename it if it is plain, else copy or download it again",
                    path));
  }
  return std::unique_ptr<ByteSource>(std::make_unique<PlainSource>(std::move(stored)));
}

}  // namespace ingot::data
