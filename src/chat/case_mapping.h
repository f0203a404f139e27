// Upper and lower case of Unicode characters, from tables made by tools/make_case_tables.py.
#pragma once

#include <string_view>

namespace thaw::jinja {

// The character itself where there is no other.
char32_t UpperCase(char32_t character);
char32_t LowerCase(char32_t character);

// The upper case that has several characters (sharp s: SS); empty for all others.
std::u32string_view SpecialUpperCase(char32_t character);

}  // namespace thaw::jinja
