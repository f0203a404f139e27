#include "engine/freeze_journal.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "io/temporary_directory.h"
#include "support/read_file.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;
using Found = FreezeJournal::Found;

class Journal : public ::testing::Test {
 protected:
  Result<FreezeJournal> Open(const std::string& parameters = "a run") {
    return FreezeJournal::Open(output_, parameters);
  }

  static void Finish(const FreezeJournal& journal, size_t tensor, const std::string& tiles) {
    auto file = journal.Start(tensor);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->Append(tiles));
    const std::string head = "head";
    ASSERT_TRUE(FreezeJournal::Finish(std::move(*file), std::as_bytes(std::span(head)),
                                      {.target_bits = 3, .error = 0.5}));
  }

  static std::string Blob(const FreezeJournal& journal, size_t tensor) {
    const auto record = journal.Find(tensor);
    EXPECT_TRUE(record);
    std::string blob;
    EXPECT_TRUE(journal.ReadBlob(tensor, *record, [&](std::span<const std::byte> piece) {
      blob.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return Result<void>();
    }));
    return blob;
  }

  TemporaryDirectory folder_;
  std::string output_ = folder_.PathOf("out.gguf");
  std::filesystem::path journal_ = output_ + ".freezing";
};

TEST_F(Journal, KeepsFinishedTensorsForTheSameRun) {
  {
    const auto journal = Open();
    ASSERT_TRUE(journal) << journal.error().message;
    EXPECT_EQ(journal->found(), Found::kNothing);
    Finish(*journal, 3, "tiles of three");
    EXPECT_FALSE(journal->Find(2));
  }
  const auto again = Open();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->found(), Found::kSameRun);
  const auto record = again->Find(3);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->blob_bytes(), 18U);
  EXPECT_EQ(record->target_bits, 3);
  EXPECT_EQ(record->error, 0.5);
  EXPECT_EQ(Blob(*again, 3), "headtiles of three");
}

TEST_F(Journal, StartsAnewForAnotherRun) {
  Finish(*Open(), 3, "tiles");
  const auto other = Open("another run");
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->found(), Found::kOtherRun);
  EXPECT_FALSE(other->Find(3));
  EXPECT_EQ(Open("another run")->found(), Found::kSameRun);
}

TEST_F(Journal, ForgetsWhatWasNotFinished) {
  const auto journal = Open();
  folder_.Write("out.gguf.freezing/tensor-00004.partial-1-0", "half");
  EXPECT_FALSE(Open()->Find(4));
  EXPECT_FALSE(std::filesystem::exists(journal_ / "tensor-00004.partial-1-0"));
}

TEST_F(Journal, DoesNotTrustADamagedFile) {
  Finish(*Open(), 3, "tiles of three");
  const std::string whole = ReadFile(journal_ / "tensor-00003");
  // Everything but the tiles, which have hashes of their own in the head.
  for (size_t at = 14; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    folder_.Write("out.gguf.freezing/tensor-00003", damaged);
    EXPECT_FALSE(Open()->Find(3)) << at;
  }
  folder_.Write("out.gguf.freezing/tensor-00003", whole.substr(1));
  EXPECT_FALSE(Open()->Find(3));
  folder_.Write("out.gguf.freezing/tensor-00003", "");
  EXPECT_FALSE(Open()->Find(3));
  folder_.Write("out.gguf.freezing/tensor-00003", whole);
  EXPECT_TRUE(Open()->Find(3));
}

TEST_F(Journal, ReplacesATensorThatIsFinishedAgain) {
  const auto journal = Open();
  Finish(*journal, 0, "first");
  Finish(*journal, 0, "second");
  EXPECT_EQ(Blob(*journal, 0), "headsecond");
}

TEST_F(Journal, RemovesItsFolder) {
  const auto journal = Open();
  Finish(*journal, 0, "tiles");
  ASSERT_TRUE(journal->Remove());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Journal, TouchesNoFolderThatIsNotItsOwn) {
  std::filesystem::create_directory(journal_);
  folder_.Write("out.gguf.freezing/letter.txt", "dear");
  folder_.Write("out.gguf.freezing/tensor-00001", "x");
  const auto journal = Open();
  ASSERT_FALSE(journal);
  EXPECT_THAT(journal.error().message, HasSubstr("letter.txt"));
  EXPECT_TRUE(std::filesystem::exists(journal_ / "tensor-00001"));
}

TEST_F(Journal, SaysWhatStandsInItsPlace) {
  folder_.Write("out.gguf.freezing", "a file");
  const auto in_the_way = Open();
  ASSERT_FALSE(in_the_way);
  EXPECT_THAT(in_the_way.error().message, HasSubstr("out.gguf.freezing"));
  const auto nowhere = FreezeJournal::Open(folder_.PathOf("none/out.gguf"), "a run");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace thaw
