#include "launch/multi_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ingot::launch {
namespace {

struct Host {
  std::string name;
  int ranks = 1;
};

Result<Host> host_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  Host host{text.substr(0, colon), 1};
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data() + colon + 1, end, host.ranks).ptr != end || host.ranks < 1)
      host.name.clear();
  }
  if (host.name.empty())
    return invalid(
        fmt::format("--hosts   '{}' is no host; write node-0:4,node-1:4, with the ranks of each", text));
  return host;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-+=:,./@%").find(c) != std::string_view::npos;
}

}  // namespace

Result<int> ranks_of(const std::vector<std::string>& hosts) {
  int ranks = 0;
  for (const std::string& text : hosts) {
    INGOT_TRY(const Host host, host_of(text));
    ranks += host.ranks;
  }
  return ranks;
}

Result<std::vector<std::string>> engine_command(const MultiNode& start) {
  std::vector<std::string> words;
  const std::string ranks = fmt::format("{}", start.ranks);
  if (start.hosts.empty()) {
    words = {"srun", "--ntasks", ranks, "--kill-on-bad-exit=1"};
    if (start.nodes > 0) words.insert(words.end(), {"--nodes", fmt::format("{}", start.nodes)});
  } else {
    INGOT_TRY(const Host first, host_of(start.hosts.front()));
    // Each rank binds itself to its share of the node.
    words = {"mpirun",
             "-n",
             ranks,
             "--host",
             fmt::format("{}", fmt::join(start.hosts, ",")),
             "--bind-to",
             "none",
             "-x",
             fmt::format("INGOT_ADDRESS={}:{}", first.name, start.port)};
    for (const std::string& name : start.passed) words.insert(words.end(), {"-x", name});
    if (start.as_root) words.emplace_back("--allow-run-as-root");
  }
  words.insert(words.end(), start.words.begin(), start.words.end());
  return words;
}

std::string in_a_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), is_plain);
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace ingot::launch
