# frozen_string_literal: true

# As app.psgi.
version = File.exist?("/tmp/version") ? File.read("/tmp/version").chomp : "first"
answer = lambda do |env|
  case env["PATH_INFO"]
  when "/orphan" then `sleep 1000 >/dev/null 2>&1 & echo $!`
  when "/slow"
    system("touch /tmp/running; until [ -e /tmp/finish ]; do sleep 0.02; done")
    "finished\n"
  else
    size = 0
    while (part = env["rack.input"].read(65_536))
      size += part.bytesize
    end
    writable = %w[/ /etc /var/tmp .].count do |folder|
      File.write("#{folder}/oribi-test", "")
    rescue SystemCallError
      false
    end
    "ruby #{version} #{Process.euid} #{size} #{writable}\n"
  end
end
run ->(env) { [200, { "content-type" => "text/plain" }, [answer.call(env)]] }
