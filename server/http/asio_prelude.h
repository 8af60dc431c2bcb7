// Before any Asio or Beast header: Asio 1.74 uses std::exchange without including it.
#pragma once
#include <utility>
