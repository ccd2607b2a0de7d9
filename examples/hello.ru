# frozen_string_literal: true

# The smallest Rack app: a lambda that is given the request's environment and returns status, headers and body.
#
#     oribi examples/hello.ru

run ->(env) { [200, { "content-type" => "text/plain; charset=utf-8" }, ["Hello from Oribi, #{env['REMOTE_ADDR']}\n"]] }
