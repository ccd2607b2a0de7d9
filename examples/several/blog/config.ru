# frozen_string_literal: true

# The blog of several apps in one server: see ../oribi.toml.

run lambda { |env|
  text = "The blog: SCRIPT_NAME=#{env['SCRIPT_NAME']} PATH_INFO=#{env['PATH_INFO']}\n"
  [200, { "content-type" => "text/plain; charset=utf-8" }, [text]]
}
