// k3-make-model: a deterministic random checkpoint in the released layout, for tests and demos.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "runtime/config/read_file.h"
#include "runtime/weights/make/make_model.h"
#include "runtime/weights/make/plan.h"
#include "runtime/weights/safetensors.h"

namespace {

using k3::Error;
using k3::Result;
namespace runtime = k3::runtime;

constexpr int kExitUsage = 2;

int Fail(const Error& error) {
  std::fprintf(stderr, "k3-make-model: %s\n", error.message.c_str());
  return 1;
}

// Tensors by file, with the totals at the end.
int Describe(const runtime::MakeOptions& options) {
  const auto config = runtime::ParseModelConfig(options.config_json, options.config_path);
  if (!config.ok()) return Fail(config.error());
  const runtime::CheckpointPlan plan = runtime::PlanCheckpoint(config.value(), options.layout);
  for (const runtime::PlannedFile& file : plan.files) {
    for (const runtime::PlannedTensor& tensor : file.tensors) {
      std::printf("%s\t%s\t%s\t%s\n", file.name.c_str(), tensor.name.c_str(),
                  k3::NameOf(tensor.dtype), runtime::ShapeText(tensor.shape).c_str());
    }
  }
  std::printf("%zu files, %zu tensors, %llu bytes\n", plan.files.size(), plan.num_tensors,
              static_cast<unsigned long long>(plan.total_bytes));
  return 0;
}

int Make(const runtime::MakeOptions& options) {
  const auto made = runtime::MakeModel(options);
  if (!made.ok()) return Fail(made.error());
  std::printf("%s: %zu tensors in %zu files, %llu bytes\n", options.dir.c_str(),
              made.value().num_tensors, made.value().num_files,
              static_cast<unsigned long long>(made.value().tensor_bytes));
  return 0;
}

struct Arguments {
  std::string preset;
  std::string config_path;
  bool describe = false;
  runtime::MakeOptions make;
};

Result<k3::Ok> ChooseConfig(Arguments& arguments) {
  runtime::MakeOptions& make = arguments.make;
  if (!arguments.config_path.empty()) {
    Result<std::string> text = runtime::ReadFile(arguments.config_path, runtime::kMaxConfigBytes);
    if (!text.ok()) return text.error();
    make.config_json = std::move(text).value();
    make.config_path = arguments.config_path;
    return k3::Ok{};
  }
  const auto preset = runtime::FindPreset(arguments.preset);
  if (!preset) {
    return Error{k3::Code::kInvalidArgument, "--preset or --config is needed"};
  }
  make.config_json = preset->config_json;
  make.config_path = "preset " + preset->name;
  make.layout = preset->layout;
  return k3::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Writes a deterministic random Kimi K3 checkpoint in the released layout.");
  auto* preset = app.add_option("--preset", arguments.preset,
                                "nano (20 MB), micro (2 MB), bench (0.9 GB); k3: --describe only");
  preset->check(CLI::IsMember(runtime::PresetNames()));
  app.add_option("--config", arguments.config_path, "a config.json to follow instead")
      ->excludes(preset);
  app.add_option("--out", arguments.make.dir, "the directory to create");
  app.add_option("--seed", arguments.make.seed, "other seed, other weights (default 1)");
  app.add_flag("--force", arguments.make.force, "replace a checkpoint that is already there");
  app.add_flag("--describe", arguments.describe, "list the tensors instead of writing them");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const Result<k3::Ok> chosen = ChooseConfig(arguments);
  if (!chosen.ok()) return Fail(chosen.error());
  if (arguments.describe) return Describe(arguments.make);
  if (arguments.make.dir.empty()) {
    return Fail({k3::Code::kInvalidArgument, "--out is needed"});
  }
  return Make(arguments.make);
}
