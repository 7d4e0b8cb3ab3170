#include "comm/messages_plugin.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/plugin_library.h"
#include "comm/rendezvous.h"

namespace ingot::comm {
namespace {

// A Message is handed over as it is.
static_assert(sizeof(Message) == sizeof(IngotMessage) && sizeof(Message::State) == 1 && sizeof(bool) == 1);
static_assert(offsetof(Message, peer) == offsetof(IngotMessage, peer));
static_assert(offsetof(Message, send) == offsetof(IngotMessage, send));
static_assert(offsetof(Message, tag) == offsetof(IngotMessage, tag));
static_assert(offsetof(Message, data) == offsetof(IngotMessage, data));
static_assert(offsetof(Message, bytes) == offsetof(IngotMessage, bytes));
static_assert(offsetof(Message, state) == offsetof(IngotMessage, state));
static_assert(offsetof(Message, failure) == offsetof(IngotMessage, failure));
static_assert(offsetof(Message, request) == offsetof(IngotMessage, request));
static_assert(static_cast<int>(Message::State::kPosted) == INGOT_MESSAGE_POSTED &&
              static_cast<int>(Message::State::kDone) == INGOT_MESSAGE_DONE &&
              static_cast<int>(Message::State::kFailed) == INGOT_MESSAGE_FAILED);

Error fault(const char* sentence) { return {ErrorCode::kFault, sentence}; }

class PluginMessages final : public Messages {
 public:
  PluginMessages(const IngotMessagesTable& table, int rank, int world)
      : table_(table), rank_(rank), world_(world) {}
  ~PluginMessages() override {
    if (side_ != nullptr) table_.stop(side_);
  }

  Result<void> start() {
    if (const char* why = table_.start(rank_, world_, &side_)) return fault(why);
    return {};
  }
  Result<std::string> address() {
    const void* address = nullptr;
    int64_t bytes = 0;
    if (const char* why = table_.address(side_, &address, &bytes)) return fault(why);
    return std::string(static_cast<const char*>(address), static_cast<size_t>(bytes));
  }
  Result<void> connect(const std::vector<IngotPeer>& peers) {
    if (const char* why = table_.connect(side_, peers.data())) return fault(why);
    return {};
  }

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  void post(Message& message) override { table_.post(side_, reinterpret_cast<IngotMessage*>(&message)); }
  bool progress() override { return table_.progress(side_) != 0; }
  bool arm() override { return table_.arm(side_) != 0; }
  void sleep(std::chrono::microseconds limit) override { table_.sleep(side_, limit.count()); }
  void wake() override { table_.wake(side_); }
  Result<void> close() override {
    if (const char* why = table_.close(side_)) return fault(why);
    return {};
  }

 private:
  const IngotMessagesTable& table_;
  const int rank_, world_;
  void* side_ = nullptr;
};

}  // namespace

std::string node_identity() {
  std::string identity;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> identity;
  std::error_code ignored;
  for (const char* space : {"/proc/self/ns/ipc", "/proc/self/ns/pid"})
    identity += " " + std::filesystem::read_symlink(space, ignored).string();
  return identity;
}

Result<const IngotMessagesTable*> open_messages_plugin(const std::string& file) {
  INGOT_TRY(const std::string path, find_plugin(file));
  INGOT_TRY(
      const PluginLibrary library,
      PluginLibrary::open(path, {INGOT_MESSAGES_SYMBOL, INGOT_MESSAGES_VERSION, sizeof(IngotMessagesTable)}));
  const auto* table = reinterpret_cast<const IngotMessagesTable*>(library.table());
  const bool complete = table->name && table->start && table->address && table->connect && table->post &&
                        table->progress && table->arm && table->sleep && table->wake && table->close &&
                        table->stop;
  if (!complete)
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("plug-in {} leaves entries of its table empty: it is damaged, install it again", path)};
  return table;
}

Result<std::unique_ptr<Messages>> start_messages(const IngotMessagesTable& table, int rank, int world,
                                                 const std::string& address,
                                                 std::chrono::milliseconds limit) {
  auto messages = std::make_unique<PluginMessages>(table, rank, world);
  INGOT_TRY_VOID(messages->start());
  INGOT_TRY(const std::string own, messages->address());
  const std::string own_node = node_identity();
  std::vector<std::string> brought = {own_node + '\0' + own};
  if (world > 1 && !own.empty()) {
    INGOT_TRY(const auto rendezvous, Rendezvous::join(rank, world, address, limit));
    INGOT_TRY(brought, rendezvous->exchange(brought[0], limit));
  }
  if (own.empty()) return std::unique_ptr<Messages>(std::move(messages));
  std::vector<IngotPeer> peers;
  for (const std::string& one : brought) {
    const size_t end = one.find('\0');
    if (end == std::string::npos) return fault("a rank brought no address to the rendezvous");
    peers.push_back({one.data() + end + 1, static_cast<int64_t>(one.size() - end - 1),
                     one.compare(0, end, own_node) == 0 ? 1 : 0});
  }
  INGOT_TRY_VOID(messages->connect(peers));
  return std::unique_ptr<Messages>(std::move(messages));
}

}  // namespace ingot::comm
