#include "runtime/text/vocabulary.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "runtime/config/fault_list.h"
#include "runtime/config/read_file.h"

namespace k3::runtime {
namespace {

std::string PathIn(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

Result<Vocabulary> Vocabulary::Load(const std::string& checkpoint_dir) {
  const std::string config_path = PathIn(checkpoint_dir, "tokenizer_config.json");
  Result<RankTable> base = RankTable::Load(PathIn(checkpoint_dir, "tiktoken.model"));
  if (!base.ok()) {
    // Ids cannot be judged without the base; that the second file is there at all, can.
    FaultList faults;
    faults.Add(base.error());
    std::error_code ignored;
    if (!std::filesystem::exists(config_path, ignored)) {
      faults.Add(SystemError(config_path, "cannot open it", ENOENT));
    }
    return faults.ToError();
  }
  Result<SpecialTokens> specials = SpecialTokens::Load(config_path, base.value().size());
  if (!specials.ok()) return specials.error();
  return Vocabulary(std::move(base).value(), std::move(specials).value());
}

Result<Vocabulary> Vocabulary::LoadRanks(const std::string& tiktoken_path) {
  Result<RankTable> base = RankTable::Load(tiktoken_path);
  if (!base.ok()) return base.error();
  const std::int32_t size = base.value().size();
  return Vocabulary(std::move(base).value(), SpecialTokens::None(size));
}

std::string_view Vocabulary::bytes(std::int32_t id) const {
  K3_CHECK(contains(id));
  return id < base_.size() ? base_.bytes(id) : std::string_view(specials_.token(id).name);
}

}  // namespace k3::runtime
