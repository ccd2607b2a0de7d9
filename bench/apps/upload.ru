# frozen_string_literal: true

# Cell upload-1m: reads the whole content, as an app that stores it would, and answers how many bytes it was.
run(lambda do |env|
  input = env["rack.input"]
  total = 0
  while (part = input.read(65_536))
    total += part.bytesize
  end
  answer = total.to_s
  [200, { "content-type" => "text/plain", "content-length" => answer.bytesize.to_s }, [answer]]
end)
