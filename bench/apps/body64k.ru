# frozen_string_literal: true

# Cell body-64k: 65536 bytes in one piece, the alphabet over and over; built once, so that only sending it is measured.
body = (("a".."z").to_a.join * 2521)[0, 65_536].freeze

run ->(_env) { [200, { "content-type" => "text/plain", "content-length" => "65536" }, [body]] }
