// Where settings come from: four sources, one precedence, every fault with its origin.
#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/exit_codes.h"
#include "server/flags.h"

namespace k3::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Outcome = std::variant<Flags, EarlyExit>;

// What k3serve is started with; the file, if there is one, is named on the command line.
struct Start {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::optional<std::string> file;
};

// The one file of this process.
std::string Path() {
  return ::testing::TempDir() + "k3serve_settings_" + std::to_string(getpid()) + ".yaml";
}

std::string WriteFile(const std::string& text) {
  std::ofstream(Path()) << text;
  return Path();
}

std::vector<const char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers(strings.size());
  std::transform(strings.begin(), strings.end(), pointers.begin(),
                 [](const std::string& string) { return string.c_str(); });
  return pointers;
}

Outcome Parse(Start start) {
  start.arguments.insert(start.arguments.begin(), "k3serve");
  if (start.file) start.arguments.push_back("--config=" + WriteFile(*start.file));
  const std::vector<const char*> arguments = Pointers(start.arguments);
  std::vector<const char*> environment = Pointers(start.environment);
  environment.push_back(nullptr);
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data(), environment.data());
}

Flags Taken(const Start& start) {
  Outcome outcome = Parse(start);
  const auto* exit = std::get_if<EarlyExit>(&outcome);
  EXPECT_EQ(exit, nullptr) << exit->text;
  if (exit == nullptr) return std::get<Flags>(std::move(outcome));
  Flags none;
  none.names = {""};
  return none;
}

std::string Left(const Start& start, int code) {
  const Outcome outcome = Parse(start);
  const auto* exit = std::get_if<EarlyExit>(&outcome);
  if (exit == nullptr) return "k3serve would have started";
  EXPECT_EQ(exit->code, code);
  return exit->text;
}

std::string Refused(const Start& start) {
  return Left(start, kExitUsage);
}

Setting Find(const Flags& flags, const std::string& name) {
  for (const Setting& setting : flags.settings) {
    if (setting.name == name) return setting;
  }
  return {};
}

// A setting of the law: its names, values it takes, and where it must arrive.
struct Case {
  std::string name;
  std::string alias;  // or the name again
  std::vector<std::string> values;
  std::function<std::string(const Flags&)> read;
};

std::vector<Case> Cases() {
  const std::vector<std::string> numbers = {"1", "2", "77", "4096", "49999"};
  return {
      {"http-port", "port", numbers, [](const Flags& f) { return std::to_string(f.http_port); }},
      {"served-model-name",
       "alias",
       {"a", "b,c", "d"},
       [](const Flags& f) { return f.names.back() == "c" ? "b,c" : f.names.front(); }},
      {"warmup",
       "warmup",
       {"true", "false"},
       [](const Flags& f) { return f.warmup ? "true" : "false"; }},
      {"cache-bytes", "kv-cache-memory-bytes", numbers,
       [](const Flags& f) { return std::to_string(f.engine.cache_bytes); }},
      {"max-model-len", "context-length", numbers,
       [](const Flags& f) { return std::to_string(f.engine.max_model_len); }},
      {"max-num-seqs", "max-num-seqs", numbers,
       [](const Flags& f) { return std::to_string(f.engine.max_num_seqs); }},
      {"max-queued-tokens", "max-queued-tokens", numbers,
       [](const Flags& f) { return std::to_string(f.engine.max_queued_tokens); }},
      {"slow-client-timeout", "slow-client-timeout", numbers,
       [](const Flags& f) { return std::to_string(f.engine.slow_client_timeout_ms / 1000); }},
      {"log-format", "log-format", {"text", "json"}, [](const Flags& f) { return f.log_format; }},
      {"log-requests",
       "log-requests",
       {"none", "meta"},
       [](const Flags& f) { return f.log_requests ? "meta" : "none"; }},
      {"metrics-compat",
       "metrics-compat",
       {"none", "vllm"},
       [](const Flags& f) { return f.metrics_compat_vllm ? "vllm" : "none"; }},
  };
}

std::string Variable(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return "K3SERVE_" + name;
}

// Gives every setting by a random set of sources, and says which one must win.
class RandomStart {
 public:
  explicit RandomStart(unsigned seed) : random_(seed) {
    start.arguments = {"models/nano"};
    start.file = "# a file may say little\n";
    for (const Case& one : Cases()) Give(one);
  }

  Start start;
  std::map<std::string, Setting> expected;  // of the given ones

 private:
  bool Toss() { return random_() % 2 == 0; }
  void Give(const Case& one) {
    const auto name = [&] { return Toss() ? one.name : one.alias; };
    const auto value = [&] { return one.values[random_() % one.values.size()]; };
    const auto win = [&](const std::string& text, const char* origin) {
      expected[one.name] = {one.name, text, origin};
      return text;
    };
    if (Toss()) {
      std::string key = name();
      if (Toss()) std::replace(key.begin(), key.end(), '-', '_');
      *start.file += key + ": " + win(value(), "file") + "\n";
    }
    if (Toss()) {
      start.environment.push_back(Variable(name()) + "=" + win(value(), "environment"));
    }
    if (Toss()) start.arguments.push_back("--" + name() + "=" + win(value(), "command line"));
  }

  std::mt19937 random_;
};

// Kills: a file that outranks the environment, a lower source that comes through after a higher
// one, an alias or underscore unknown to one source, lists joined across sources, a value listed
// that is not the one in force, an origin that is.
TEST(Settings, LawOfPrecedence) {
  const unsigned seed = std::random_device{}();
  for (unsigned round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed + round));
    const RandomStart random(seed + round);
    const Flags flags = Taken(random.start);
    const Flags defaults = Taken({.arguments = {"models/nano"}});
    ASSERT_EQ(flags.settings.size(), defaults.settings.size());
    for (const Case& one : Cases()) {
      const auto given = random.expected.find(one.name);
      const Setting& expected =
          given == random.expected.end() ? Find(defaults, one.name) : given->second;
      EXPECT_EQ(Find(flags, one.name), expected) << expected.value << ' ' << expected.origin;
      const std::string& arrives = expected.value;
      EXPECT_EQ(one.read(flags), given == random.expected.end() ? one.read(defaults) : arrives);
    }
  }
}

// Kills: a printed file that is refused, a value that YAML reads as something else (a number, null,
// a comment, a quote), a default printed as empty, a setting left out.
TEST(Settings, PrintedConfigGivesTheSameFlags) {
  const unsigned seed = std::random_device{}();
  for (unsigned round = 0; round < 50; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed + round));
    Start start = RandomStart(seed + round).start;
    start.arguments[0] = round % 2 == 0 ? "models/nano" : "a: \"b\" # {c} 'd' ~\n\t\\e";
    if (round % 3 == 0) start.arguments.insert(start.arguments.end(), {"--isa", "null"});
    const Flags first = Taken(start);
    start.arguments.push_back("--print-config");
    const std::string printed = Left(start, kExitClean);
    const Flags second = Taken({.arguments = {}, .environment = {}, .file = printed});
    ASSERT_EQ(first.settings.size(), second.settings.size()) << printed;
    for (std::size_t i = 0; i < first.settings.size(); ++i) {
      EXPECT_EQ(first.settings[i].name, second.settings[i].name);
      EXPECT_EQ(first.settings[i].value, second.settings[i].value) << first.settings[i].name;
      EXPECT_EQ(second.settings[i].origin, "file");
    }
    EXPECT_EQ(first.model, second.model);
    EXPECT_EQ(first.names, second.names);
    EXPECT_EQ(first.engine.isa, second.engine.isa);
    for (const Case& one : Cases()) EXPECT_EQ(one.read(first), one.read(second)) << one.name;
  }
}

TEST(Settings, PrintedConfigSaysWhereFrom) {
  const std::string printed = Left({.arguments = {"m", "--print-config", "--port", "1"},
                                    .environment = {"K3SERVE_MAX_NUM_SEQS=3"},
                                    .file = "isa: avx2\n"},
                                   kExitClean);
  for (const char* line : {"model: m  # command line\n", "served-model-name: m  # default\n",
                           "http-port: 1  # command line\n", "max-num-seqs: 3  # environment\n",
                           "isa: avx2  # file\n", "max-queued-tokens: 4194304  # default\n"}) {
    EXPECT_THAT(printed, HasSubstr(line));
  }
  EXPECT_THAT(printed, Not(HasSubstr("config:")));
}

// Kills: a source whose faults hide another's, a fault forgiven because a better source outranks
// it, a fault that does not say where it stands, a typing slip that is silently ignored.
TEST(Settings, AllFaultsOfAllSourcesTogether) {
  const std::string text = Refused({.arguments = {"--port", "1", "--max-num-seq=2"},
                                    .environment = {"K3SERVE_PORT=x", "K3SERVE_MAX_NUM_SEQ=1",
                                                    "K3SERVE_port=1", "PORT=y", "K3SERVE_QQ="},
                                    .file = "port: 70000\n"
                                            "# a remark\n"
                                            "max-num-seq: 3\n"
                                            "isa:\n"
                                            "warmup: [true]\n"
                                            "config: other.yaml\n"
                                            "device: cpu\n"
                                            "device: ref\n"
                                            "zzzzz: {a: b}\n"});
  const std::string file = Path();
  for (const std::string& fault : {
           std::string("no model"),
           std::string("'--max-num-seq=2': no such flag; did you mean --max-num-seqs?"),
           std::string("environment K3SERVE_PORT: 'x'; expected a whole number from 0 to 65535"),
           std::string("K3SERVE_MAX_NUM_SEQ: no such setting; did you mean K3SERVE_MAX_NUM_SEQS?"),
           std::string("environment K3SERVE_port: no such setting; did you mean K3SERVE_PORT?"),
           std::string("environment K3SERVE_QQ: no such setting\n"),
           file + ":1 key port: '70000'; expected a whole number",
           file + ":3 key max-num-seq: no such setting; did you mean max-num-seqs?",
           file + ":4 key isa: no value",
           file + ":5 key warmup: expected one value",
           file + ":6 key config: a file names no further file",
           file + ":8 key device: set by ",
           file + ":9 key zzzzz: no such setting\n",
       }) {
    EXPECT_THAT(text, HasSubstr(fault));
  }
  EXPECT_THAT(text, HasSubstr("13 fault(s)"));
}

// Kills: a file that cannot be read, or is no map, taken for an empty one; an exception let out;
// yaml-cpp's search for further documents, which does not end in a file of one comma.
TEST(Settings, BrokenFiles) {
  EXPECT_THAT(Refused({.arguments = {"m", "--config", "no-such.yaml"}}),
              HasSubstr("--config: no-such.yaml: cannot open it"));
  EXPECT_THAT(Refused({.arguments = {"m"}, .environment = {"K3SERVE_CONFIG=/"}}),
              HasSubstr("environment K3SERVE_CONFIG: /: is not a regular file"));
  EXPECT_THAT(Refused({.arguments = {"m"}, .file = "port: 1\nhost: [a\n"}),
              HasSubstr(Path() + ":3: "));
  EXPECT_THAT(Refused({.arguments = {"m"}, .file = "- port\n"}), HasSubstr("max-num-seqs: 16"));
  EXPECT_THAT(Refused({.arguments = {"m"}, .file = "port: 1\n---\nport: 2\n"}),
              HasSubstr("and nothing else"));
  EXPECT_THAT(Refused({.arguments = {"m"}, .file = ", port: 1\n"}), HasSubstr("nothing else"));
  EXPECT_THAT(Refused({.arguments = {"m"}, .file = "[a]: b\n"}), HasSubstr("not a name"));
  EXPECT_EQ(Taken({.arguments = {"m"}, .file = ""}).http_port, 8000);
  EXPECT_EQ(Taken({.arguments = {"m"}, .file = "---\nport: 1\n...\n# end\n"}).http_port, 1);
}

// Kills: a pod that does not start because a Service beside it is called k3serve.
TEST(Settings, ServiceLinksAreNoSettings) {
  const Flags flags =
      Taken({.arguments = {"m"},
             .environment = {"K3SERVE_SERVICE_HOST=10.0.0.1", "K3SERVE_SERVICE_PORT=8000",
                             "K3SERVE_SERVICE_PORT_GRPC=50051", "K3SERVE_PORT=tcp://10.0.0.1:8000",
                             "K3SERVE_PORT_8000_TCP=tcp://10.0.0.1:8000",
                             "K3SERVE_PORT_8000_TCP_PROTO=tcp",
                             "K3SERVE_METRICS_PORT=tcp://10.0.0.2:1"}});
  EXPECT_EQ(Find(flags, "http-port"), (Setting{"http-port", "8000", "default"}));
}

// Kills: names on several lines of YAML lost, a switch that cannot be switched off again, two
// variables for one setting of which one silently wins.
TEST(Settings, ListsSwitchesAndTwins) {
  const Flags flags = Taken({.arguments = {"m", "--no-warmup"},
                             .environment = {"K3SERVE_WARMUP=1"},
                             .file = "served_model_name:\n- a\n- b\nmetrics-compat: [vllm]\n"});
  EXPECT_THAT(flags.names, ::testing::ElementsAre("a", "b"));
  EXPECT_FALSE(flags.warmup);
  EXPECT_TRUE(flags.metrics_compat_vllm);
  EXPECT_THAT(
      Refused({.arguments = {"m"}, .environment = {"K3SERVE_PORT=1", "K3SERVE_HTTP_PORT=2"}}),
      HasSubstr("environment K3SERVE_PORT: set by environment K3SERVE_HTTP_PORT too"));
  EXPECT_THAT(Refused({.arguments = {"m", "--metrics-compat", "none,vllm"}}),
              HasSubstr("'none,vllm'; expected none, or vllm"));
  EXPECT_THAT(Refused({.arguments = {"m", "--alias", "a,,b"}}), HasSubstr("'a,,b'"));
}

}  // namespace
}  // namespace k3::server
