#include "runtime/weights/make/embedded.h"

#include <cstddef>

namespace k3::runtime {
namespace embedded {
// Defined in a file that the build writes from the folder's own.
extern const unsigned char tokenizer_tiktoken_model[];
extern const std::size_t tokenizer_tiktoken_model_bytes;
extern const unsigned char tokenizer_tokenizer_config_json[];
extern const std::size_t tokenizer_tokenizer_config_json_bytes;
extern const unsigned char config_template_json[];
extern const std::size_t config_template_json_bytes;
}  // namespace embedded

namespace {
std::string_view Text(const unsigned char* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}
}  // namespace

std::string_view EmbeddedTiktokenModel() {
  return Text(embedded::tokenizer_tiktoken_model, embedded::tokenizer_tiktoken_model_bytes);
}

std::string_view EmbeddedTokenizerConfig() {
  return Text(embedded::tokenizer_tokenizer_config_json,
              embedded::tokenizer_tokenizer_config_json_bytes);
}

std::string_view EmbeddedConfigTemplate() {
  return Text(embedded::config_template_json, embedded::config_template_json_bytes);
}

}  // namespace k3::runtime
