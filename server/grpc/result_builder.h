// Gathers the steps of a generation into the one answer of Complete.
#pragma once
#include <string>

#include "proto/k3serve/v1/inference.pb.h"
#include "server/generation.h"
#include "server/grpc/usage_sum.h"

namespace k3::server {

class ResultBuilder {
 public:
  // The vocabulary outlives the builder.
  ResultBuilder(const runtime::Vocabulary& vocabulary, const std::string& request_id,
                const k3serve::v1::OutputOptions& output);

  void Admitted(const server::Admitted& admitted);
  void Add(GenerationStep step);
  k3serve::v1::GenerateResult Take();  // once, after the last Finished

  bool want_text() const { return want_text_; }

 private:
  const runtime::Vocabulary& vocabulary_;
  bool want_text_;
  bool want_token_ids_;
  bool include_prompt_token_ids_;
  server::Admitted admitted_;
  UsageSum sum_;
  k3serve::v1::GenerateResult result_;
};

}  // namespace k3::server
