// Template source to Program. Bounded in nesting (kMaxNesting), linear in the source's length.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "chat/ast.h"

namespace thaw::jinja {

// kCorrupt where the source is not a template; the error begins with "name:line:column: ".
Result<std::shared_ptr<const Program>> ParseTemplate(std::string_view source, std::string name);

}  // namespace thaw::jinja
