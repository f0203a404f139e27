// thaw inspect: what a GGUF file holds.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/interrupt.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/standard_output.h"
#include "cli/tensor_report.h"
#include "gguf/gguf_file.h"

namespace thaw::cli {
namespace {

// Elements shown of an array: a vocabulary has a hundred thousand.
constexpr uint64_t kTextElements = 6;
constexpr uint64_t kJsonElements = 64;

// Characters shown of a string in the text form: a chat template has thousands.
constexpr size_t kTextCharacters = 72;

struct Totals {
  int64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

struct TensorTotals {
  Totals all;
  std::map<std::string_view, Totals> by_type;
};

TensorTotals AddUp(const GgufFile& file) {
  TensorTotals totals;
  for (const TensorInfo& tensor : file.tensors()) {
    for (Totals* sum : {&totals.all, &totals.by_type[TypeName(tensor)]}) {
      ++sum->tensors;
      sum->elements += static_cast<uint64_t>(tensor.elements());
      sum->bytes += tensor.bytes;
    }
  }
  return totals;
}

// The first elements of an array as JSON. Inner arrays are described, not opened.
Result<Json> FirstElements(const GgufFile& file, const GgufField& field, uint64_t max_count) {
  const GgufArray& array = *field.array();
  const auto list = [&](auto elements) {
    elements.resize(std::min<size_t>(elements.size(), max_count));
    return Json(std::move(elements));
  };
  switch (array.element_type) {
    case GgufType::kString: {
      THAW_ASSIGN(auto strings, file.ReadStrings(array, field.key));
      return list(std::move(strings));
    }
    case GgufType::kFloat32:
    case GgufType::kFloat64: {
      THAW_ASSIGN(auto floats, file.ReadFloats(array, field.key));
      return list(std::move(floats));
    }
    case GgufType::kArray: {
      THAW_ASSIGN(auto arrays, file.ReadArrays(array, field.key));
      arrays.resize(std::min<size_t>(arrays.size(), max_count));
      Json described = Json::array();
      for (const GgufArray& inner : arrays) {
        described.push_back(fmt::format("{} of {}", inner.count, GgufTypeName(inner.element_type)));
      }
      return described;
    }
    default: {
      THAW_ASSIGN(auto integers, file.ReadInts(array, field.key));
      return list(std::move(integers));
    }
  }
}

Result<Json> ValueJson(const GgufFile& file, const GgufField& field, uint64_t max_count) {
  if (field.array() != nullptr) return FirstElements(file, field, max_count);
  if (field.type == GgufType::kString) {
    THAW_ASSIGN(std::string text, file.GetString(field.key));
    return Json(std::move(text));
  }
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
          return value;
        } else {
          return nullptr;
        }
      },
      field.value);
}

// Whole characters of JSON text, cut with "..." where it is long.
std::string Shorten(std::string text) {
  if (text.size() <= kTextCharacters) return text;
  size_t end = kTextCharacters - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string ValueText(const GgufFile& file, const GgufField& field) {
  const auto value = ValueJson(file, field, kTextElements);
  if (!value) return fmt::format("({})", value.error().message);
  std::string text = Shorten(CompactJson(*value));
  if (field.array() != nullptr) return fmt::format("{} elements: {}", field.array()->count, text);
  return text;
}

Result<void> PrintText(const GgufFile& file) {
  const TensorTotals totals = AddUp(file);
  THAW_TRY(WriteOutput(fmt::format("{}: GGUF version {}, alignment {}, {} file{}\n", file.path(),
                                   file.version(), file.alignment(), file.file_count(),
                                   file.file_count() == 1 ? "" : "s")));
  THAW_TRY(WriteOutput(fmt::format("\n{} fields\n", file.fields().size())));
  for (const GgufField& field : file.fields()) {
    if (Interrupted()) return Fail(ErrorCode::kCancelled, "interrupted");
    THAW_TRY(WriteOutput(
        fmt::format("  {:<44} {:<16} {}\n", field.key, field.TypeName(), ValueText(file, field))));
  }
  THAW_TRY(WriteOutput(fmt::format("\n{} tensors\n", file.tensors().size())));
  for (const TensorInfo& tensor : file.tensors()) {
    THAW_TRY(
        WriteOutput(fmt::format("  {:<44} {:<8} {:<20} {:>10}\n", tensor.name, TypeName(tensor),
                                ShapeText(tensor.extents()), FormatBytes(tensor.bytes))));
  }
  THAW_TRY(WriteOutput("\ntotals\n"));
  const auto row = [](std::string_view name, const Totals& sum) {
    return WriteOutput(fmt::format("  {:<8} {:>6} tensors {:>16} elements {:>10}\n", name,
                                   sum.tensors, sum.elements, FormatBytes(sum.bytes)));
  };
  for (const auto& [type, sum] : totals.by_type) THAW_TRY(row(type, sum));
  return row("all", totals.all);
}

Json TotalsJson(const Totals& sum) {
  return {{"tensors", sum.tensors}, {"elements", sum.elements}, {"bytes", sum.bytes}};
}

Json TensorJson(const TensorInfo& tensor) {
  const auto dims = std::span(tensor.dims).first(static_cast<size_t>(tensor.n_dims));
  return {{"name", tensor.name},
          {"type", TypeName(tensor)},
          {"shape", Json(std::vector<int64_t>(dims.begin(), dims.end()))},
          {"bytes", tensor.bytes},
          {"file", tensor.file_index},
          {"offset", tensor.offset}};
}

Result<void> PrintJson(const GgufFile& file) {
  Json fields = Json::array();
  for (const GgufField& field : file.fields()) {
    if (Interrupted()) return Fail(ErrorCode::kCancelled, "interrupted");
    Json described = {{"key", field.key}, {"type", field.TypeName()}};
    if (field.array() != nullptr) described["count"] = field.array()->count;
    auto value = ValueJson(file, field, kJsonElements);
    if (value) {
      described["value"] = *std::move(value);
    } else {
      described["error"] = value.error().message;
    }
    fields.push_back(std::move(described));
  }
  Json tensors = Json::array();
  for (const TensorInfo& tensor : file.tensors()) tensors.push_back(TensorJson(tensor));
  const TensorTotals totals = AddUp(file);
  Json by_type = Json::object();
  for (const auto& [type, sum] : totals.by_type) by_type[std::string(type)] = TotalsJson(sum);
  return WriteOutput(PrettyJson({{"file", file.path()},
                                 {"version", file.version()},
                                 {"alignment", file.alignment()},
                                 {"files", file.file_count()},
                                 {"metadata", std::move(fields)},
                                 {"tensors", std::move(tensors)},
                                 {"totals", TotalsJson(totals.all)},
                                 {"totals_by_type", std::move(by_type)}}));
}

Result<void> PrintTensor(const GgufFile& file, const InspectOptions& options) {
  const TensorInfo* tensor = file.FindTensor(options.tensor);
  if (tensor == nullptr) {
    return Fail(ErrorCode::kNotFound, "{}: there is no tensor named {}", options.path,
                CompactJson(options.tensor));
  }
  THAW_ASSIGN(const TensorSummary summary, ReadTensorElements(file, *tensor, options.npy_file));
  if (options.json) {
    Json described = TensorJson(*tensor);
    described.update(Json{{"elements", summary.elements},
                          {"zeros", summary.zeros},
                          {"not_finite", summary.not_finite},
                          {"min", summary.min},
                          {"max", summary.max},
                          {"mean", summary.mean},
                          {"rms", summary.rms},
                          {"first", summary.first}});
    return WriteOutput(PrettyJson(described));
  }
  return WriteOutput(fmt::format(
      "{}\n  type      {}\n  shape     {}\n  bytes     {}\n  elements  {}, {} of them zero, {} not "
      "finite\n  range     {:.6g} to {:.6g}\n  mean      {:.6g}\n  rms       {:.6g}\n  first     "
      "{:.6g}\n",
      tensor->name, TypeName(*tensor), ShapeText(tensor->extents()), tensor->bytes,
      summary.elements, summary.zeros, summary.not_finite, summary.min, summary.max, summary.mean,
      summary.rms, fmt::join(summary.first, " ")));
}

}  // namespace

Result<void> Execute(const InspectOptions& options) {
  THAW_ASSIGN(const GgufFile file, GgufFile::Open(options.path));
  if (!options.tensor.empty()) return PrintTensor(file, options);
  return options.json ? PrintJson(file) : PrintText(file);
}

}  // namespace thaw::cli
