#include "server/http/http_server.h"

#include "server/http/asio_prelude.h"
// The prelude comes first.
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <fmt/format.h>
#include <optional>
#include <thread>

namespace k3::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using beast::error_code;

constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;
constexpr std::uint64_t kMaxBodyBytes = 1 << 20;  // no route reads a body yet
constexpr std::chrono::seconds kIdleTimeout{75};

HttpResponse Refusal(int status, const char* message) {
  return {status,
          "application/json",
          fmt::format(R"({{"error":{{"message":"{}","type":"invalid_request_error",)"
                      R"("param":null,"code":null}}}})",
                      message),
          {}};
}

// One connection; its own operations keep it alive.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, const HttpHandler& handler)
      : stream_(std::move(socket)), handler_(handler) {}

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(kMaxBodyBytes);
    stream_.expires_after(kIdleTimeout);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->OnRead(error); });
  }

 private:
  void OnRead(error_code error) {
    if (!error) {
      const auto& request = parser_->get();
      const beast::string_view target = request.target();
      const std::string path(target.substr(0, target.find('?')));
      const bool head = request.method() == http::verb::head;
      return Write(handler_({std::string(request.method_string()), path, request.body()}),
                   request.keep_alive(), head);
    }
    if (error == http::error::body_limit) {
      Write(Refusal(413, "the body is larger than 1 MiB"), false, false);
    } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      Write(Refusal(431, "the header is larger than 64 KiB"), false, false);
    } else if (error.category() == http::make_error_code(http::error::bad_target).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      Write(Refusal(400, "this is no HTTP/1.1 request"), false, false);
    }
    // Else the peer left or fell silent; dropping the session closes the socket.
  }

  void Write(HttpResponse answer, bool keep_alive, bool head) {
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(answer.status));
    response_.set(http::field::server, "k3serve");
    response_.set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response_.set(name, value);
    response_.keep_alive(keep_alive);
    response_.content_length(answer.body.size());
    if (!head) response_.body() = std::move(answer.body);
    stream_.expires_after(kIdleTimeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), keep_alive](error_code error, std::size_t) {
                        self->OnWritten(error, keep_alive);
                      });
  }

  void OnWritten(error_code error, bool keep_alive) {
    if (error) return;
    if (keep_alive) return Read();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  const HttpHandler& handler_;
  beast::flat_buffer buffer_{kMaxHeaderBytes + kMaxBodyBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

struct HttpServer::Impl {
  explicit Impl(HttpHandler to_call) : handler(std::move(to_call)) {}

  Result<Ok> Listen(const HttpOptions& options);
  void Accept();

  HttpHandler handler;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  int port = 0;
  std::thread thread;
};

Result<Ok> HttpServer::Impl::Listen(const HttpOptions& options) {
  error_code error;
  const auto fault = [&] {
    return Error{Code::kUnavailable, fmt::format("HTTP: cannot listen on {}:{}: {}", options.host,
                                                 options.port, error.message())};
  };
  tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) return fault();
  const tcp::endpoint endpoint = *found.begin();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fault();
  port = acceptor.local_endpoint(error).port();
  return Ok{};
}

void HttpServer::Impl::Accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) std::make_shared<Session>(std::move(socket), handler)->Read();
    Accept();
  });
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                      HttpHandler handler) {
  auto impl = std::make_unique<Impl>(std::move(handler));
  const Result<Ok> listening = impl->Listen(options);
  if (!listening.ok()) return listening.error();
  impl->Accept();
  impl->thread = std::thread([raw = impl.get()] { raw->context.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  impl_->context.stop();
  impl_->thread.join();
}

int HttpServer::port() const {
  return impl_->port;
}

}  // namespace k3::server
