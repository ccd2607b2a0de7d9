# frozen_string_literal: true

# The behaviours of app.psgi, whose head explains them.

FOLDER = ENV.fetch("ORIBI_TEST_FOLDER")

if File.exist?("#{FOLDER}/load")
  case File.read("#{FOLDER}/load")
  when "die" then raise "the app is broken"
  when "hang"
    File.write("#{FOLDER}/loading", "")
    sleep 100
  when "warn" then 20.times { warn "one of many lines" }
  when "doomed" then system "(sleep 5; kill -9 #{Process.pid}) >/dev/null 2>&1 &"
  end
end

def answer(text)
  fields = { "Content-Type" => "text/plain", "Content-Length" => text.bytesize.to_s, "X-Worker" => Process.pid.to_s }
  [200, fields, [text]]
end

def nap(number)
  File.write("#{FOLDER}/napping", "")
  sleep number.to_i
  answer("nap #{number}\n")
end

def orphan(number)
  Process.wait(spawn("sleep 0.1 & exit 0"))
  answer("orphan #{number}\n")
end

BEHAVIOURS = {
  "" => ->(_) { answer("hello\n") },
  "fast" => ->(number) { answer("fast #{number}\n") },
  "nap" => ->(number) { nap(number) },
  "die" => ->(number) { raise "request #{number} dies" },
  "time" => ->(_) { answer("#{Time.now.to_i}\n") },
  "orphan" => ->(number) { orphan(number) }
}.freeze

run lambda { |env|
  behaviour = BEHAVIOURS[env["PATH_INFO"].delete_prefix("/")]
  behaviour ? behaviour.call(env["QUERY_STRING"]) : [404, { "Content-Length" => "0" }, []]
}
