// One request on its way through the scheduler. A state owns what it needs, so what a state lacks
// cannot leak from it: there is one release path, the variant's own.
#pragma once
#include <variant>
#include <vector>

#include "cache/page_pool.h"
#include "runtime/schedule/request.h"

namespace k3::runtime {

// A window slot, 0..n-1, given back by its destructor.
class SlotPool {
 public:
  class Slot {
   public:
    Slot(Slot&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Slot() {
      if (pool_ != nullptr) pool_->free_.push_back(id_);
    }
    int id() const { return id_; }

   private:
    friend class SlotPool;
    Slot(SlotPool* pool, int id) : pool_(pool), id_(id) {}
    SlotPool* pool_;
    int id_;
  };

  explicit SlotPool(int size) : size_(size) {
    for (int i = size; i-- > 0;) free_.push_back(i);
  }
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool() { K3_CHECK(num_free() == size_); }

  int num_free() const { return static_cast<int>(free_.size()); }
  Slot Take() {
    K3_CHECK(!free_.empty());
    const int id = free_.back();
    free_.pop_back();
    return Slot(this, id);
  }

 private:
  int size_;
  std::vector<int> free_;
};

// Everything a running sequence holds: its live KDA state, its latent blocks, its window.
struct Lease {
  cache::Pages state;   // private; S and conv tails at the last grid point
  cache::Pages blocks;  // private; latents, one page per 16 tokens
  SlotPool::Slot slot;
};

struct Waiting {};
struct Prefilling {
  Lease lease;
  int computed = 0;  // tokens whose state and latents stand in the lease
};
struct Decoding {
  Lease lease;
  int computed = 0;
};
using SequenceState = std::variant<Waiting, Prefilling, Decoding>;

struct Sequence {
  RequestId id{};
  Request request;
  std::vector<Token> tokens;       // prompt, then what was generated
  int max_new_tokens = 0;          // resolved against the context and the pool
  bool length_is_context = false;  // max_new_tokens came from the context, not from the caller
  bool started = false;            // its Started was emitted
  int preemptions = 0;
  SequenceState state;

  int num_prompt() const { return static_cast<int>(request.prompt.size()); }
  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int num_generated() const { return num_tokens() - num_prompt(); }
};

}  // namespace k3::runtime
