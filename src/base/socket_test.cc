#include "base/socket.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace ingot {
namespace {

using std::chrono::milliseconds;

std::string own_path(const char* name) {
  return (std::filesystem::temp_directory_path() / fmt::format("ingot-{}-{}", name, getpid())).string();
}

Socket accepted(const Socket& listener) {
  pollfd wait{listener.fd(), POLLIN, 0};
  poll(&wait, 1, 5000);
  auto socket = accept_from(listener);
  EXPECT_TRUE(socket && socket->fd() >= 0);
  return socket ? std::move(*socket) : Socket();
}

// Several megabytes, more than the system buffers, from one end to the other.
void passes_bytes(const std::string& listen, const std::function<std::string(const Socket&)>& connect) {
  auto listener = listen_at(listen);
  ASSERT_TRUE(listener) << listener.error().message;
  const Deadline deadline = deadline_after(milliseconds(10000));
  auto client = connect_to(connect(*listener), deadline);
  ASSERT_TRUE(client) << client.error().message;
  const Socket server = accepted(*listener);
  std::vector<std::byte> sent(5'000'000), got(sent.size());
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  std::thread writer([&] { EXPECT_TRUE(write_all(*client, sent, deadline)); });
  EXPECT_TRUE(read_exactly(server, got, deadline));
  writer.join();
  EXPECT_EQ(got, sent);
}

TEST(Socket, PassesBytesOverTcpAndOverAPath) {
  passes_bytes("127.0.0.1:0",
               [](const Socket& listener) { return fmt::format("127.0.0.1:{}", port_of(listener)); });
  const std::string path = own_path("passes");
  passes_bytes(path, [&](const Socket&) { return path; });
  std::filesystem::remove(path);
}

TEST(Socket, AConnectionWaitsForItsListener) {
  const std::string path = own_path("late");
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(60));
    auto listener = listen_at(path);
    ASSERT_TRUE(listener);
    accepted(*listener);
  });
  EXPECT_TRUE(connect_to(path, deadline_after(milliseconds(5000))));
  late.join();
  // It is gone; its path is left, is answered by nobody, and is taken over.
  auto nobody = connect_to(path, deadline_after(milliseconds(20)));
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().message.find("nobody answers at " + path), std::string::npos);
  auto listener = listen_at(path);
  EXPECT_TRUE(listener);
  auto second = listen_at(path);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another process does"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Socket, EveryWaitHasALimitAndAnEndIsTold) {
  auto listener = listen_at("127.0.0.1:0");
  ASSERT_TRUE(listener);
  auto client =
      connect_to(fmt::format("127.0.0.1:{}", port_of(*listener)), deadline_after(milliseconds(5000)));
  ASSERT_TRUE(client);
  std::byte one{};
  auto silent = read_exactly(*client, std::span(&one, 1), deadline_after(milliseconds(20)));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().message, "no answer in time");
  { const Socket closes_at_once = accepted(*listener); }
  auto ended = read_exactly(*client, std::span(&one, 1), deadline_after(milliseconds(5000)));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "closed");
}

TEST(Socket, AnAddressThatIsNoneIsToldWithoutWaiting) {
  for (const char* address : {"nowhere", ":80", "host:", ""}) {
    auto socket = connect_to(address, deadline_after(milliseconds(60000)));
    ASSERT_FALSE(socket) << address;
    EXPECT_EQ(socket.error().code, ErrorCode::kInvalid);
    EXPECT_NE(socket.error().message.find("host:port, or a path"), std::string::npos);
  }
  auto too_long = listen_at("/" + std::string(200, 'x'));
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("at most 107 bytes"), std::string::npos)
      << too_long.error().message;
}

}  // namespace
}  // namespace ingot
