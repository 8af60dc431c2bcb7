// The HTTP port: one thread that reads requests, asks the handler and writes answers.
//   1. The handler runs on that thread and must not wait for anyone: health has to answer always.
//   2. Headers beyond 64 KiB and bodies beyond 1 MiB are refused before they are read whole.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/result.h"

namespace k3::server {

struct HttpRequest {
  std::string method;
  std::string path;  // without the query
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpOptions {
  std::string host;
  int port = 0;  // 0: any free one
};

class HttpServer {
 public:
  // Binds and listens, then serves. kUnavailable: the address cannot be bound.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();  // closes every connection

  int port() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace k3::server
