#include "base/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/test_folder.h"

namespace ingot {
namespace {

class FileTest : public testing::Test {
 protected:
  void TearDown() override { set_fault(""); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string text(const std::string& name) const {
    auto result = read_file(path(name));
    return result ? *result : "<" + result.error().message + ">";
  }
  std::vector<std::string> names() const { return *list_directory(folder_); }
  void put(const std::string& name, const std::string& content) const { (void)root_.write(name, content); }

  const TestFolder root_;
  const std::string& folder_ = root_.path();
};

// Runs `body` in a child with the fault armed; true when it was killed by it.
bool killed_at(const std::string& fault, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    set_fault(fault);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

TEST_F(FileTest, ReadsWholeFilesAndNamesWhatIsWrong) {
  put("a", std::string("x\0y\n", 4));
  EXPECT_EQ(text("a"), std::string("x\0y\n", 4));
  put("empty", "");
  EXPECT_EQ(text("empty"), "");
  EXPECT_FALSE(read_file("/proc/self/status")->empty());
  const auto missing = read_file(path("nope"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(path("nope") + ": No such file or directory; check the spelling"),
            std::string::npos)
      << missing.error().message;
  EXPECT_FALSE(read_file(folder_));
}

TEST_F(FileTest, FoldersAndSizes) {
  ASSERT_TRUE(make_directories(path("p/q/r")));
  ASSERT_TRUE(make_directories(path("p/q/r")));
  put("p/b", "12345");
  put("p/a", "");
  EXPECT_EQ(*list_directory(path("p")), (std::vector<std::string>{"a", "b", "q"}));
  EXPECT_EQ(*file_bytes(path("p/b")), 5);
  EXPECT_FALSE(file_bytes(path("p")));
  const auto blocked = make_directories(path("p/b/c"));
  ASSERT_FALSE(blocked);
  EXPECT_NE(blocked.error().message.find("is a file, not a folder"), std::string::npos)
      << blocked.error().message;
  EXPECT_TRUE(remove_all(path("p")));
  EXPECT_TRUE(remove_all(path("p")));
  EXPECT_FALSE(path_exists(path("p")));
}

TEST_F(FileTest, MapsFiles) {
  put("m", "hello");
  auto mapped = MappedFile::open(path("m"));
  ASSERT_TRUE(mapped);
  MappedFile moved = std::move(*mapped);
  ASSERT_EQ(moved.bytes().size(), 5U);
  EXPECT_EQ(static_cast<char>(moved.bytes()[4]), 'o');
  put("none", "");
  EXPECT_TRUE(MappedFile::open(path("none"))->bytes().empty());
  EXPECT_FALSE(MappedFile::open(path("absent")));
}

TEST_F(FileTest, AtomicFileIsThereOnlyAfterCommit) {
  {
    auto file = AtomicFile::create(path("f"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("one "));
    ASSERT_TRUE(file->write(std::string(600'000, 'x')));
    ASSERT_TRUE(file->write(" two"));
    EXPECT_EQ(file->written(), 600'008);
    EXPECT_FALSE(path_exists(path("f")));
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(text("f"), "one " + std::string(600'000, 'x') + " two");
  {
    auto file = AtomicFile::create(path("f"));
    ASSERT_TRUE(file->write("thrown away"));
  }
  EXPECT_EQ(file_bytes(path("f")).value(), 600'008);
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(FileTest, FullDiskLeavesTheOldFile) {
  put("f", "old");
  for (const char* point :
       {"file.open", "file.write", "file.fsync", "file.rename", "atomic_file.before_rename"}) {
    set_fault(std::string(point) + "=enospc");
    const auto result = write_file_atomically(path("f"), "new");
    ASSERT_FALSE(result) << point;
    EXPECT_EQ(result.error().code, ErrorCode::kIo);
    EXPECT_NE(result.error().message.find("No space left on device; free some space"), std::string::npos);
    EXPECT_EQ(text("f"), "old") << point;
    EXPECT_EQ(names(), std::vector<std::string>{"f"}) << point;
  }
  ASSERT_TRUE(write_file_atomically(path("f"), "new")) << "a fault without + strikes once";
  EXPECT_EQ(text("f"), "new");
}

TEST_F(FileTest, KilledWriterLeavesOldOrNew) {
  const std::string old_text(300'000, 'o'), new_text(300'001, 'n');
  for (const char* point :
       {"file.open", "file.write", "file.fsync", "atomic_file.before_rename", "file.rename"}) {
    put("f", old_text);
    ASSERT_TRUE(killed_at(std::string(point) + "=kill", [&] {
      static_cast<void>(write_file_atomically(path("f"), new_text).has_value());
    })) << point;
    EXPECT_EQ(text("f"), old_text) << point;
  }
  EXPECT_EQ(names().size(), 2U) << "the last writer died before its rename and left its file";
  ASSERT_TRUE(killed_at("atomic_file.after_rename=kill",
                        [&] { static_cast<void>(write_file_atomically(path("f"), new_text).has_value()); }));
  EXPECT_EQ(text("f"), new_text);
  EXPECT_EQ(names(), std::vector<std::string>{"f"}) << "the next writer removes leftovers of dead ones";
}

TEST_F(FileTest, LivingWritersKeepTheirFile) {
  auto first = AtomicFile::create(path("f"));
  auto second = AtomicFile::create(path("f"));
  ASSERT_TRUE(first->write("first"));
  ASSERT_TRUE(second->write("second"));
  EXPECT_TRUE(remove_leftovers(folder_)->empty());
  ASSERT_TRUE(second->commit());
  ASSERT_TRUE(first->commit());
  EXPECT_EQ(text("f"), "first");
}

TEST_F(FileTest, AtomicDirectoryAppearsWhole) {
  auto made = AtomicDirectory::create(path("d/"), false);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(make_directories(made->staging_path() + "/sub"));
  ASSERT_TRUE(write_file_atomically(made->staging_path() + "/sub/a", "1"));
  EXPECT_FALSE(path_exists(path("d")));
  ASSERT_TRUE(made->commit());
  EXPECT_EQ(text("d/sub/a"), "1");
  const auto again = AtomicDirectory::create(path("d"), false);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("exists already"), std::string::npos);
  {
    auto replaced = AtomicDirectory::create(path("d"), true);
    ASSERT_TRUE(write_file_atomically(replaced->staging_path() + "/b", "2"));
    ASSERT_TRUE(replaced->commit());
  }
  EXPECT_EQ(*list_directory(path("d")), std::vector<std::string>{"b"});
  { auto dropped = AtomicDirectory::create(path("e"), false); }
  EXPECT_EQ(names(), std::vector<std::string>{"d"});
}

TEST_F(FileTest, KilledDirectoryWriterLeavesOldOrNew) {
  const auto write_folder = [&] {
    auto made = AtomicDirectory::create(path("d"), true);
    if (!made || !write_file_atomically(made->staging_path() + "/a", "new")) return;
    static_cast<void>(made->commit().has_value());
  };
  ASSERT_TRUE(make_directories(path("d")));
  int kills = 0;
  for (int n = 1; n < 40; ++n) {
    put("d/a", "old");
    if (!killed_at("*:" + std::to_string(n) + "=kill", write_folder)) break;
    ++kills;
    const std::string content = text("d/a");
    EXPECT_TRUE(content == "old" || content == "new") << "killed at point " << n << ": " << content;
    static_cast<void>(remove_leftovers(folder_).has_value());
    EXPECT_EQ(names(), std::vector<std::string>{"d"}) << n;
  }
  EXPECT_GE(kills, 8);
  EXPECT_EQ(text("d/a"), "new");
}

TEST_F(FileTest, FullDiskInADirectoryLeavesTheOld) {
  ASSERT_TRUE(make_directories(path("d")));
  put("d/a", "old");
  set_fault("file.fsync:2+=eio");
  auto made = AtomicDirectory::create(path("d"), true);
  ASSERT_TRUE(made);
  put(made->staging_path().substr(folder_.size() + 1) + "/a", "new");
  const auto result = made->commit();
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("the disk or its connection is failing"), std::string::npos);
  EXPECT_EQ(text("d/a"), "old");
}

TEST_F(FileTest, LinesAreWholeAfterTornOnes) {
  for (const std::string& torn : {std::string(), std::string("half"), std::string(10'000, 'h')}) {
    put("lines", "one\ntwo\n" + torn);
    auto writer = LineWriter::open(path("lines"));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append("three"));
    EXPECT_EQ(text("lines"), "one\ntwo\nthree\n");
  }
  put("lines", "never a newline");
  ASSERT_TRUE(LineWriter::open(path("lines")));
  EXPECT_EQ(text("lines"), "");
}

TEST_F(FileTest, LinesSurviveFullDisksAndKills) {
  auto writer = LineWriter::open(path("lines"));
  ASSERT_TRUE(writer->append("one"));
  set_fault("file.write=enospc");
  EXPECT_FALSE(writer->append("lost line"));
  ASSERT_TRUE(writer->append("two"));
  EXPECT_EQ(text("lines"), "one\ntwo\n");
  ASSERT_TRUE(killed_at("file.write=kill", [&] { static_cast<void>(writer->append("killed").has_value()); }));
  EXPECT_EQ(text("lines"), "one\ntwo\nkil");
  auto next = LineWriter::open(path("lines"));
  ASSERT_TRUE(next->append("three"));
  EXPECT_EQ(text("lines"), "one\ntwo\nthree\n");
}

TEST(FaultDeathTest, MalformedSpecsAreRefused) {
  EXPECT_DEATH(set_fault("nothing"), "is not <point>");
  EXPECT_DEATH(set_fault("a=explode"), "does not end in");
  EXPECT_DEATH(set_fault("a:x=kill"), "needs a number");
  EXPECT_DEATH(set_fault(":1=kill"), "names no point");
}

}  // namespace
}  // namespace ingot
