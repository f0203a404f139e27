#include "tokenizer/pre_tokenizers.h"

#include <algorithm>

namespace thaw {
namespace {

// The expressions are those of the models' tokenizer.json files in the reading that the conformance
// data were made with, reshaped where a backtracking engine would need more than linear time. A
// class of cased letters ("upper case and uncased") is read there as "any letter but a-z".

constexpr std::string_view kGpt2 =
    R"('(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::string_view kLlama3 =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen2 = R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
                                    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                                    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen35 =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kUfakzeka =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kMinicpm5 =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kBailing = R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
                                      R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                                      R"(|\s*[\r\n]|\s+(?!\S)|\s+)";

constexpr std::string_view kSeedCoder = R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
                                        R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)"
                                        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Words joined by single spaces stay together.
constexpr std::string_view kExaoneMoe =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}(?:[\p{L}\p{M}]++| \p{L})*+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";

// A run of spaces is cut into powers of two. Behind a space the newline alternative cannot match,
// or it would have taken that space too; saying so keeps it from scanning the run again and again.
constexpr std::string_view kJais2 =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|(?<![\t\x0b\x0c\x{85}\p{Z}])\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))"
    R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)";

constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[^a-z\P{L}]*[^A-Z\P{L}]+)"
    R"((?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|[^\r\n\p{L}\p{N}]?[^a-z\P{L}]+[^A-Z\P{L}]*)"
    R"((?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[^a-z\P{L}]*[^A-Z\P{L}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[^a-z\P{L}]+[^A-Z\P{L}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// kGpt4o with combining marks counted as letters.
constexpr std::string_view kGraniteEmbedding =
    R"([^\r\n\p{L}\p{N}]?[^a-z\p{N}\p{P}\p{S}\p{Z}\p{C}]*[^A-Z\p{N}\p{P}\p{S}\p{Z}\p{C}]+)"
    R"((?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|[^\r\n\p{L}\p{N}]?[^a-z\p{N}\p{P}\p{S}\p{Z}\p{C}]+[^A-Z\p{N}\p{P}\p{S}\p{Z}\p{C}]*)"
    R"((?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kTinyAya =
    R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+)"
    R"(|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C})"
    R"(\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+)"
    R"(|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)";

// Chinese ideographs are words of their own, apart from other letters.
constexpr std::string_view kKimiK2 =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2EBEF}\x{F900}-\x{FAFF})"
    R"(\x{2F800}-\x{2FA1F}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[^\P{L}\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF})"
    R"(\x{2A700}-\x{2EBEF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]+)"
    R"((?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kSpark = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
                                    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
                                    R"(|[\r\n]|\s+(?!\S)|\s+)";

constexpr std::string_view kChineseAndKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)";

// [\x{0800}-\x{9FA5}\x{AC00}-\x{D7FF}] without the white space in it, which belongs to no class.
constexpr std::string_view kChineseAndHangul =
    R"([\x{0800}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E})"
    R"(\x{2060}-\x{2FFF}\x{3001}-\x{9FA5}\x{AC00}-\x{D7FF}]+)";

constexpr std::string_view kAsianScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F})"
    R"(\x{2F00}-\x{2FDF}\x{0E40}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{1100}-\x{11FF}]+)";

// The cased letters as they stood in an older Unicode; kept as ranges because newer ones differ.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126})"
    R"(\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";

constexpr std::string_view kDeepseekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}\x{3002}]+)";

// "\s+$", tried only at the start of a run of spaces: trying it everywhere in a run is quadratic.
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s++\z)";

constexpr std::string_view kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigits = R"(\p{N}+)";
constexpr std::string_view kUpToThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kThreeDigits = R"([0-9][0-9][0-9])";

// Text up to the end of a run of digits. \G, where the search began, keeps text without digits from
// being scanned from each of its characters.
constexpr std::string_view kThroughDigits = R"(\G[^\p{N}]*+\p{N}+)";

// Cuts such a piece so that its digits are in groups of three counted from the right ("1 234 567");
// the first group, of one to three digits, stays with the text before it.
constexpr std::string_view kThousands =
    R"(\A[^\p{N}]*+(?:\p{N}{1,2}(?=(?:\p{N}{3})*+\z)|\p{N}{3})|\p{N}{3})";

// The same for digits alone, which may stand between those of other scripts.
constexpr std::string_view kAsciiThousands =
    R"((?<![0-9])[0-9]{1,2}(?=(?:[0-9]{3})*+(?![0-9]))|[0-9]{3})";

constexpr std::string_view kLines = R"([^\n]+|\n+)";

std::vector<PreTokenizer> MakeTable() {
  return {
      {.names = {"default"}, .passes = {R"([\p{P}$+<=>^~|]+)", kGpt2, kDigits, kThreeDigits}},
      {.names = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
                 "lfm2", "jina-v5-nano"},
       .passes = {kLlama3},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .passes = {kLlama3}},
      {.names = {"glm4", "glm5"}, .passes = {kLlama3}, .ignore_merges = true},
      {.names = {"minicpm5"}, .passes = {kUpToThreeDigits, kMinicpm5}, .ignore_merges = true},
      {.names = {"jais-2"}, .passes = {kJais2}},
      {.names = {"deepseek-llm"},
       .passes = {R"([\r\n])", kDeepseekLetters, kDeepseekPunctuation, kTrailingSpace,
                  kChineseAndHangul, kDigits}},
      {.names = {"deepseek-coder"},
       .passes = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kChineseAndHangul, kDigit}},
      {.names = {"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"},
       .passes = {kUpToThreeDigits, kChineseAndKana, kDeepseekV3}},
      {.names = {"spark2_5"}, .passes = {kUpToThreeDigits, kChineseAndKana, kSpark, kDigit}},
      {.names = {"youtu"}, .passes = {kYoutuScripts, kYoutu}, .ignore_merges = true},
      {.names = {"falcon"}, .passes = {R"([\p{P}$+<=>^~|`]+)", kGpt2, kThreeDigits}},
      {.names = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b",
                 "mellum2"},
       .passes = {kDigit, kGpt2}},
      {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de",
                 "jina-v2-code", "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert",
                 "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"},
       .passes = {kGpt2}},
      {.names = {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan",
                 "solar-open", "grok-2"},
       .passes = {kQwen2}},
      {.names = {"qwen35"}, .passes = {kQwen35}},
      {.names = {"laguna"}, .passes = {kLines, kQwen2}},
      {.names = {"ufakzeka"}, .passes = {kUfakzeka}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"}, .passes = {kBailing}},
      {.names = {"seed-coder"}, .passes = {kSeedCoder}},
      {.names = {"exaone-moe"}, .passes = {kExaoneMoe}},
      {.names = {"poro-chat", "bloom", "gpt3-finnish"}, .passes = {kBloom}},
      {.names = {"viking"}, .passes = {kBloom, kDigit}},
      {.names = {"tekken"}, .passes = {kTekken}, .ignore_merges = true, .add_bos = true},
      {.names = {"chameleon"},
       .passes = {R"(<sentinel:[0-9]+>)", R"(IMGIMG[A-I]{1,4}Z)", R"([\t\n]|    |  )", kDigit,
                  R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
       .add_bos = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .passes = {kGpt4o}},
      {.names = {"granite-embed-multi-97m"}, .passes = {kGraniteEmbedding}, .ignore_merges = true},
      {.names = {"tiny_aya", "cohere2moe"}, .passes = {kThroughDigits, kThousands, kTinyAya}},
      {.names = {"afmoe"}, .passes = {kThroughDigits, kThousands, kAsianScripts, kDeepseekV3}},
      {.names = {"superbpe"}, .passes = {kDigits, kAsciiThousands}},
      {.names = {"kimi-k2"}, .passes = {kKimiK2}},
      {.names = {"gemma4", "granite-embed-multi-311m"},
       .passes = {kLines},
       .add_bos = true,
       .byte_level = false,
       .whole_newline_runs = true},
      {.names = {"sarvam-moe"}, .passes = {kLines}, .byte_level = false},
  };
}

const std::vector<PreTokenizer>& Table() {
  static const auto& table = *new std::vector<PreTokenizer>(MakeTable());
  return table;
}

}  // namespace

const PreTokenizer* FindPreTokenizer(std::string_view name) {
  for (const PreTokenizer& entry : Table()) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
  }
  return nullptr;
}

std::string PreTokenizerNames() {
  std::vector<std::string_view> names;
  for (const PreTokenizer& entry : Table()) {
    names.insert(names.end(), entry.names.begin(), entry.names.end());
  }
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string_view name : names) {
    if (!list.empty()) list += ", ";
    list += name;
  }
  return list;
}

}  // namespace thaw
