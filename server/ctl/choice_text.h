// Choices as people read them. Pure: messages in, text out.
//   1. Deltas and the Finished of a choice, added in order, make what Complete would have answered.
//   2. A token is shown as its id and its bytes in quotes; what is no whole character, or would not
//      stay on its line, is escaped. A token without bytes (a control token) shows its id alone.
#pragma once
#include <cstdint>
#include <string>

namespace k3serve::v1 {
class Choice;
class Delta;
class Finished;
class Timings;
class Usage;
}  // namespace k3serve::v1

namespace k3::server::ctl {

void Add(const k3serve::v1::Delta& delta, k3serve::v1::Choice& choice);
void End(const k3serve::v1::Finished& finished, k3serve::v1::Choice& choice);

// A labelled block: the text or the ids, then a line a token when it has log probabilities.
std::string ChoiceText(const k3serve::v1::Choice& choice);

// One line: why it ended, how much, how fast, and the seed that does it again.
std::string UsageText(const k3serve::v1::Usage& usage, const k3serve::v1::Timings& timings,
                      const std::string& reason, std::uint64_t seed);

std::string Quoted(const std::string& bytes);

}  // namespace k3::server::ctl
