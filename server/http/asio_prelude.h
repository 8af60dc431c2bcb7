// Before any Asio or Beast header: Asio 1.74 uses std::exchange without including it. Each of our
// io_contexts is run by one thread, so the fences around handlers order nothing; without them
// ThreadSanitizer, which does not model fences, can follow what happens.
#pragma once
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#include <utility>
