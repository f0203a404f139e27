#include "base/utf8.h"

namespace thaw {
namespace {

struct LeadByte {
  int length;          // bytes of the character; 0: cannot start one
  uint8_t second_low;  // the second byte's allowed range (Unicode 15, table 3-7)
  uint8_t second_high;
};

LeadByte Classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xc2) return {0, 0, 0};
  if (lead < 0xe0) return {2, 0x80, 0xbf};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead < 0xf0) return {3, 0x80, 0xbf};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead < 0xf4) return {4, 0x80, 0xbf};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// How many bytes at `position` are a prefix of some character, and how long that would be.
struct Prefix {
  int present;
  int needed;
};

Prefix MeasurePrefix(std::string_view text, size_t position) {
  const LeadByte lead = Classify(static_cast<uint8_t>(text[position]));
  if (lead.length == 0) return {1, 0};
  int present = 1;
  while (present < lead.length && position + present < text.size()) {
    const auto byte = static_cast<uint8_t>(text[position + present]);
    const uint8_t low = present == 1 ? lead.second_low : 0x80;
    const uint8_t high = present == 1 ? lead.second_high : 0xbf;
    if (byte < low || byte > high) return {present, 0};
    ++present;
  }
  return {present, lead.length};
}

}  // namespace

Utf8Character DecodeUtf8(std::string_view text, size_t position) {
  const Prefix prefix = MeasurePrefix(text, position);
  if (prefix.present != prefix.needed) {
    return {kReplacementCharacter, static_cast<uint8_t>(prefix.present), false};
  }
  constexpr uint8_t kLeadBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t code_point = static_cast<uint8_t>(text[position]) & kLeadBits[prefix.needed];
  for (int i = 1; i < prefix.needed; ++i) {
    code_point = (code_point << 6) | (static_cast<uint8_t>(text[position + i]) & 0x3f);
  }
  return {code_point, static_cast<uint8_t>(prefix.needed), true};
}

bool IsValidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Character c = DecodeUtf8(text, i);
    if (!c.valid) return false;
    i += c.length;
  }
  return true;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto byte = [&](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xc0 | (code_point >> 6));
    byte(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    byte(0xe0 | (code_point >> 12));
    byte(0x80 | ((code_point >> 6) & 0x3f));
    byte(0x80 | (code_point & 0x3f));
  } else {
    byte(0xf0 | (code_point >> 18));
    byte(0x80 | ((code_point >> 12) & 0x3f));
    byte(0x80 | ((code_point >> 6) & 0x3f));
    byte(0x80 | (code_point & 0x3f));
  }
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  Utf8Assembler assembler;
  std::string out = assembler.Push(text);
  out += assembler.Finish();
  return out;
}

std::string Utf8Assembler::Push(std::string_view bytes) {
  held_.append(bytes);
  std::string out;
  out.reserve(held_.size());
  size_t i = 0;
  while (i < held_.size()) {
    const Prefix prefix = MeasurePrefix(held_, i);
    if (prefix.needed > prefix.present) break;  // may still become a character
    if (prefix.needed == 0) {
      AppendUtf8(kReplacementCharacter, out);
    } else {
      out.append(held_, i, prefix.needed);
    }
    i += prefix.present;
  }
  held_.erase(0, i);
  return out;
}

std::string Utf8Assembler::Finish() {
  std::string out;
  if (!held_.empty()) AppendUtf8(kReplacementCharacter, out);
  held_.clear();
  return out;
}

}  // namespace thaw
