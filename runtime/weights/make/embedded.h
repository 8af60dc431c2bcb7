// Files of this folder that are compiled into the program, so that it runs from anywhere.
#pragma once
#include <string_view>

namespace k3::runtime {

std::string_view EmbeddedTiktokenModel();    // 2,560 base tokens
std::string_view EmbeddedTokenizerConfig();  // their control tokens, 2560..2815
std::string_view EmbeddedConfigTemplate();   // config.json of the released layout

}  // namespace k3::runtime
