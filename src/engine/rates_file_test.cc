#include "engine/rates_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/device.h"
#include "io/temporary_directory.h"
#include "support/golden_model.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

constexpr MeasurementLimits kBrief = {.memory_bytes = 10 << 20, .seconds = 0.001};

MachineIdentity AnyMachine() {
  return {.cpu = "Some CPU avx2", .cores = 8, .kernels = "avx2", .threads = 4};
}

MachineRates AnyRates() {
  return {.buffer_bytes = 2 << 20,
          .memory_bytes_per_second = 1.0 / 3.0 * 1e11,
          .fork_join_seconds = 2.5e-6,
          .matmul = {{ElementType::kQ4_0, 1.1e10, 2.2e11},
                     {ElementType::kF32, 3e10, 4e10},
                     {WeightForm(ElementType::kQ8_0, /*coded=*/true), 5e10, 6e11}},
          .disks = {{"254:0", 3.4e9}, {"0:45", 1.5e8}}};
}

TEST(RatesFile, GivesBackExactlyWhatWasSaved) {
  const TemporaryDirectory folder;
  const std::string path = folder.PathOf("rates");
  ASSERT_TRUE(SaveRates(path, AnyMachine(), AnyRates()));
  const auto file = LoadRates(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->identity, AnyMachine());
  EXPECT_EQ(file->rates, AnyRates());
}

TEST(RatesFile, IsNotFoundWhereThereIsNone) {
  const auto file = LoadRates("/no/such/file");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
}

TEST(RatesFile, RefusesEveryTextThatIsCutOffWithinALine) {
  const TemporaryDirectory folder;
  const std::string path = folder.PathOf("rates");
  ASSERT_TRUE(SaveRates(path, AnyMachine(), AnyRates()));
  const std::string text = ReadWholeFile(path);
  for (size_t size = 0; size < text.size(); ++size) {
    if (size > 0 && text[size - 1] == '\n' && text.find("matmul") <= size) continue;
    const auto file = LoadRates(folder.Write("cut", text.substr(0, size)));
    ASSERT_FALSE(file) << size;
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
  }
}

TEST(RatesFile, NamesTheLineThatIsWrong) {
  const TemporaryDirectory folder;
  const std::string path = folder.PathOf("rates");
  ASSERT_TRUE(SaveRates(path, AnyMachine(), AnyRates()));
  const std::string text = ReadWholeFile(path);
  const auto message = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const auto file = LoadRates(folder.Write("changed", changed));
    return file ? "" : file.error().message;
  };
  EXPECT_THAT(message("rates 4", "rates 5"), HasSubstr("line 1: expected thaw machine rates 4"));
  EXPECT_THAT(message("cores 8", "cores -8"), HasSubstr("line 3: expected a number above 0"));
  EXPECT_THAT(message("cores 8", "cores 99999999999"), HasSubstr("line 3"));
  EXPECT_THAT(message("threads", "thread"), HasSubstr("line 5: expected threads"));
  EXPECT_THAT(message("2.5e-06", "inf"), HasSubstr("line 8: expected a number above 0"));
  EXPECT_THAT(message("2.5e-06", "nan"), HasSubstr("line 8"));
  EXPECT_THAT(message("Q4_0", "Q4_9"), HasSubstr("line 9: expected an element type"));
  EXPECT_THAT(message("disk 254:0 3400000000", "disk 254:0"), HasSubstr("line 12"));
}

TEST(RatesFile, RefusesOneThatIsFarTooLarge) {
  const TemporaryDirectory folder;
  const auto file = LoadRates(folder.Write("rates", std::string(1 << 20, 'x')));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("1048576 bytes"));
}

class ObtainRatesIn : public ::testing::Test {
 protected:
  ObtainRatesIn() {
    model_path_ = folder_.Write("model", std::string(1 << 20, 'x'));
    model_ = *OpenFile(model_path_);
  }

  RatesRequest Request(std::span<const WeightForm> types) const {
    return {.types = types, .file = model_.get(), .cache_path = rates_path_, .limits = kBrief};
  }

  Result<MachineRates> Obtain(const RatesRequest& request) {
    return ObtainRates(request, kernels_, pool_);
  }

  // Puts numbers in the file that nobody would measure.
  MachineRates Mark(MachineIdentity identity) {
    MachineRates rates = AnyRates();
    rates.disks = {{*DeviceOf(model_path_), 12345}};
    THAW_CHECK(SaveRates(rates_path_, identity, rates));
    return rates;
  }

  const TemporaryDirectory folder_;
  const std::string rates_path_ = folder_.PathOf("rates");
  std::string model_path_;
  std::shared_ptr<const File> model_;
  const KernelTable& kernels_ = **SelectKernels("");
  ThreadPool pool_{1};
  const MachineIdentity identity_ = IdentifyMachine(kernels_, 1);
};

const WeightForm kQ4[] = {ElementType::kQ4_0};
const WeightForm kQ4AndQ8[] = {ElementType::kQ4_0, ElementType::kQ8_0};

TEST_F(ObtainRatesIn, MeasuresWhatIsWantedAndKeepsIt) {
  const auto measured = Obtain(Request(kQ4));
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_GT(measured->memory_bytes_per_second, 0);
  EXPECT_NE(measured->FindMatMul(ElementType::kQ4_0), nullptr);
  EXPECT_EQ(measured->matmul.size(), 1u);
  EXPECT_EQ(measured->disks.size(), 1u);
  const auto file = LoadRates(rates_path_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->identity, identity_);
  EXPECT_EQ(file->rates, *measured);
}

TEST_F(ObtainRatesIn, TakesFromTheFileWhatIsOfThisMachine) {
  const MachineRates marked = Mark(identity_);
  const auto rates = Obtain(Request(kQ4));
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_EQ(*rates, marked);
}

TEST_F(ObtainRatesIn, AddsATypeThatIsNotInTheFile) {
  const MachineRates marked = Mark(identity_);
  const auto rates = Obtain(Request(kQ4AndQ8));
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_EQ(rates->memory_bytes_per_second, marked.memory_bytes_per_second);
  EXPECT_EQ(*rates->FindMatMul(ElementType::kQ4_0), *marked.FindMatMul(ElementType::kQ4_0));
  EXPECT_NE(rates->FindMatMul(ElementType::kQ8_0), nullptr);
  EXPECT_EQ(LoadRates(rates_path_)->rates, *rates);
}

TEST_F(ObtainRatesIn, MeasuresAgainOnAnotherMachine) {
  MachineIdentity other = identity_;
  other.cpu += " of another make";
  const MachineRates marked = Mark(other);
  const auto rates = Obtain(Request(kQ4));
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_NE(rates->memory_bytes_per_second, marked.memory_bytes_per_second);
  EXPECT_NE(*rates->FindMatMul(ElementType::kQ4_0), *marked.FindMatMul(ElementType::kQ4_0));
  EXPECT_EQ(LoadRates(rates_path_)->identity, identity_);
}

TEST_F(ObtainRatesIn, MeasuresAgainOnRequestAndWhenThereIsMoreMemory) {
  for (const bool remeasure : {false, true}) {
    const MachineRates marked = Mark(identity_);
    RatesRequest request = Request(kQ4);
    request.remeasure = remeasure;
    if (!remeasure) request.limits.memory_bytes += 1 << 20;
    const auto rates = Obtain(request);
    ASSERT_TRUE(rates) << rates.error().message;
    EXPECT_NE(rates->memory_bytes_per_second, marked.memory_bytes_per_second);
  }
}

TEST_F(ObtainRatesIn, NeedsNoMemoryForWhatIsKnown) {
  const MachineRates marked = Mark(identity_);
  RatesRequest request = Request(kQ4);
  request.limits.memory_bytes = 0;
  const auto known = Obtain(request);
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(*known, marked);
  request.types = kQ4AndQ8;
  EXPECT_FALSE(Obtain(request));
}

TEST_F(ObtainRatesIn, MeasuresAgainWhenTheFileIsCorruptAndReplacesIt) {
  folder_.Write("rates", "rubbish\n");
  ASSERT_TRUE(Obtain(Request(kQ4)));
  EXPECT_TRUE(LoadRates(rates_path_));
}

TEST_F(ObtainRatesIn, DoesWithoutAFileThatCannotBeWritten) {
  RatesRequest request = Request(kQ4);
  request.cache_path = folder_.PathOf("no/such/folder/rates");
  EXPECT_TRUE(Obtain(request));
  request.cache_path = "";
  EXPECT_TRUE(Obtain(request));
}

TEST_F(ObtainRatesIn, LeavesTheDiskOutWhereNoneIsAskedFor) {
  RatesRequest request = Request({});
  request.file = nullptr;
  const auto rates = Obtain(request);
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_TRUE(rates->disks.empty());
  EXPECT_TRUE(rates->matmul.empty());
}

}  // namespace
}  // namespace thaw
