# frozen_string_literal: true

# Cells keep-alive, short and pipelined: the smallest complete answer, 11 bytes.
run ->(_env) { [200, { "content-type" => "text/plain", "content-length" => "11" }, ["Hello World"]] }
