# frozen_string_literal: true

# Cell stream: 16 pieces of 1 KiB (a letter each, 'a' to 'p'), given one by one, no Content-Length: a server must frame them.
pieces = ("a".."p").map { |letter| (letter * 1024) }.freeze

# A body that is not an Array: a server cannot know what comes, nor how much.
body = Class.new do
  define_method(:each) { |&write| pieces.each(&write) }
end

run ->(_env) { [200, { "content-type" => "text/plain" }, body.new] }
