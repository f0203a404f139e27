// Templates that want too much: each must end with an error, quickly and in bounded memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/chat_template.h"

namespace thaw {
namespace {

using ::testing::ContainsRegex;

std::string Repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

void ExpectRefused(const std::string& source) {
  SCOPED_TRACE(source.substr(0, 200));
  const auto parsed = ChatTemplate::Parse(source, "t");
  if (!parsed) {
    EXPECT_THAT(parsed.error().message, ContainsRegex("^t:[0-9]+:[0-9]+: "));
    return;
  }
  const auto rendered = parsed->Render(nlohmann::ordered_json::object());
  ASSERT_FALSE(rendered) << "rendered " << rendered->size() << " bytes";
  EXPECT_EQ(rendered.error().code, ErrorCode::kResourceExhausted) << rendered.error().message;
  EXPECT_THAT(rendered.error().message, ContainsRegex("^t:[0-9]+:[0-9]+: "));
}

TEST(HostileTemplate, CannotMakeALongString) {
  ExpectRefused("{{ 'a' * 1000000000 }}");
  ExpectRefused("{{ 'abcdefgh' * 9000000 }}");
  ExpectRefused("{{ [0] * 1000000000 }}");
  ExpectRefused("{{ 'a'.ljust(1000000000) }}");
  ExpectRefused("{{ 'a'.center(1000000000) }}");
  ExpectRefused("{{ 'a'.zfill(1000000000) }}");
  ExpectRefused("{{ '\t'.expandtabs(1000000000) }}");
  ExpectRefused("{{ ('a' * 1000000).replace('', 'b' * 1000000) }}");
  ExpectRefused("{{ ('a' * 100000) | replace('a', 'b' * 100000) }}");
  ExpectRefused("{{ ('x\n' * 100000) | indent(100000) }}");
  ExpectRefused("{{ 'a' | indent(1000000000, true) }}");
  ExpectRefused("{{ range(100000) | join('a' * 100000) }}");
  ExpectRefused("{{ 'a' | center(1000000000) }}");
  ExpectRefused("{{ 'abc' | batch(1000000000, 'x') | list }}");
  ExpectRefused("{{ 'abc' | slice(1000000000) | list }}");
}

TEST(HostileTemplate, CannotDoubleAValueForever) {
  ExpectRefused(
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}");
  ExpectRefused(
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}");
  ExpectRefused(
      "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}");
  ExpectRefused(
      "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% "
      "endfor %}{{ ns.s }}");
  ExpectRefused(
      "{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% "
      "endfor %}{{ ns.s | tojson }}");
  ExpectRefused(
      "{% set ns = namespace(s='a', t='a') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}"
      "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}");
}

TEST(HostileTemplate, CannotNestValuesDeeply) {
  ExpectRefused(
      "{% set ns = namespace(s=[]) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor "
      "%}");
  ExpectRefused(
      "{% set ns = namespace(s={}) %}{% for i in range(99999) %}{% set ns.s = {'a': ns.s} %}{% "
      "endfor %}");
}

TEST(HostileTemplate, CannotLoopForever) {
  const std::string loop = "{% for i in range(100000) %}";
  ExpectRefused(loop + loop + loop + "{% endfor %}{% endfor %}{% endfor %}");
  ExpectRefused(loop + loop + "{{ i }}{% endfor %}{% endfor %}");
  ExpectRefused("{% set s = 'abc' * 10000000 %}" + loop + "{{ s.upper() | length }}{% endfor %}");
  ExpectRefused("{% set s = range(100000) | list %}" + loop + "{{ s == s[:] }}{% endfor %}");
}

TEST(HostileTemplate, CannotRecurseForever) {
  ExpectRefused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  ExpectRefused("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}");
  ExpectRefused(
      "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(50) }}");
  ExpectRefused("{% macro m(a=m()) %}{% endmacro %}{{ m() }}");
  ExpectRefused(
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller }}{% endmacro %}"
      "{% call m() %}x{% endcall %}");
  ExpectRefused("{% for x in ['ab'] recursive %}{{ loop([x]) }}{% endfor %}");
  ExpectRefused(
      "{% set ns = namespace() %}{% macro m() %}{{ ns.f() }}{% endmacro %}{% set ns.f = m %}{{ m() "
      "}}");
  ExpectRefused("{{ 'a' | map(" + Repeat("'map', ", 5000) + "'upper') | list }}");
}

TEST(HostileTemplate, CannotNestDeeply) {
  const int deep = 100'000;
  ExpectRefused("{{ " + Repeat("(", deep) + "1" + Repeat(")", deep) + " }}");
  ExpectRefused("{{ " + Repeat("[", deep) + Repeat("]", deep) + " }}");
  ExpectRefused("{{ " + Repeat("{1:", deep) + "1" + Repeat("}", deep) + " }}");
  ExpectRefused("{{ " + Repeat("not ", deep) + "1 }}");
  ExpectRefused("{{ " + Repeat("-", deep) + "1 }}");
  ExpectRefused("{{ x" + Repeat(".a", deep) + " }}");
  ExpectRefused("{{ x" + Repeat("[0]", deep) + " }}");
  ExpectRefused("{{ x" + Repeat("()", deep) + " }}");
  ExpectRefused("{{ x" + Repeat("|upper", deep) + " }}");
  ExpectRefused("{{ x" + Repeat(" is defined", deep) + " }}");
  ExpectRefused("{{ " + Repeat("1 if x else ", deep) + "1 }}");
  ExpectRefused("{{ 1" + Repeat(" if x", deep) + " }}");
  ExpectRefused("{{ " + Repeat("f(", deep) + Repeat(")", deep) + " }}");
  ExpectRefused(Repeat("{% if 1 %}", deep) + Repeat("{% endif %}", deep));
  ExpectRefused(Repeat("{% for x in [1] %}", deep) + Repeat("{% endfor %}", deep));
  ExpectRefused("{% for " + Repeat("(", deep) + "x" + Repeat(")", deep) + " in [] %}{% endfor %}");
  ExpectRefused(Repeat("{% macro m() %}", deep));
}

TEST(HostileTemplate, MayBeLongWhereItIsNotDeep) {
  const auto parsed = ChatTemplate::Parse(
      "{{ 1" + Repeat(" + 1", 10'000) + " }}{{ ''" + Repeat(" ~ 'a'", 10'000) + " }}" +
          "{% if 0 %}" + Repeat("{% elif 0 %}", 10'000) + "{% endif %}" + Repeat("{{ 1 }}", 10'000),
      "t");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto rendered = parsed->Render(nlohmann::ordered_json::object());
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(*rendered, "10001" + Repeat("a", 10'000) + Repeat("1", 10'000));
}

TEST(HostileTemplate, MayPointNamespacesAtThemselves) {
  const auto parsed = ChatTemplate::Parse(
      "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me == ns }}{{ ns }}", "t");
  ASSERT_TRUE(parsed);
  const auto rendered = parsed->Render(nlohmann::ordered_json::object());
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(*rendered, "True<Namespace>");
}

}  // namespace
}  // namespace thaw
