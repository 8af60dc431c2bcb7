#include "server/lifecycle.h"

#include <fmt/format.h>

namespace k3::server {
namespace {

constexpr int kLoadingRetryMs = 2000;
constexpr int kDrainingRetryMs = 1000;

}  // namespace

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kLoading:
      return "loading";
    case Phase::kReady:
      return "ready";
    case Phase::kDraining:
      return "draining";
    case Phase::kFailed:
      return "failed";
  }
  return "?";
}

const char* NameOf(LoadStage stage) {
  switch (stage) {
    case LoadStage::kWeights:
      return "weights";
    case LoadStage::kTokenizer:
      return "tokenizer";
    case LoadStage::kWarmup:
      return "warmup";
    case LoadStage::kEngine:
      return "engine";
  }
  return "?";
}

void Lifecycle::SetProgress(LoadStage stage, double fraction) {
  stage_.store(stage, std::memory_order_relaxed);
  progress_.store(fraction, std::memory_order_relaxed);
}

void Lifecycle::Ready(const ServedModel* model) {
  progress_.store(1, std::memory_order_relaxed);
  model_.store(model);
  phase_.store(Phase::kReady);
}

void Lifecycle::Drain() {
  phase_.store(Phase::kDraining);
}

void Lifecycle::Fail() {
  phase_.store(Phase::kFailed);
}

std::optional<ApiError> Lifecycle::Refusal() const {
  switch (phase()) {
    case Phase::kReady:
      return std::nullopt;
    case Phase::kLoading:
      return ApiError{
          Code::kUnavailable, reason::kLoading,
          fmt::format("the model is loading: {}, {:.0f} %", NameOf(stage()), progress() * 100),
          kLoadingRetryMs};
    case Phase::kDraining:
      return ApiError{Code::kUnavailable, reason::kDraining, "the server is shutting down",
                      kDrainingRetryMs};
    case Phase::kFailed:
      break;
  }
  return ApiError{Code::kUnavailable, reason::kLoadFailed, "the model could not be loaded", {}};
}

}  // namespace k3::server
