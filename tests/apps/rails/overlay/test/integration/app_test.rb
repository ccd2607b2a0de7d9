# frozen_string_literal: true

require "test_helper"

# The app from a browser's point of view. The same tests run with the app called directly and over a live server.
class AppTest < ActionDispatch::IntegrationTest
  setup do
    @protection = ActionController::Base.allow_forgery_protection
    ActionController::Base.allow_forgery_protection = true
  end
  teardown { ActionController::Base.allow_forgery_protection = @protection }

  test "a note is kept and listed" do
    text = "Zoë & #{SecureRandom.hex(8)}"
    get "/notes/new"
    assert_response :success
    post "/notes", params: { authenticity_token: token, note: { text: } }
    assert_redirected_to "/notes"
    follow_redirect!
    assert_select "li", text
    assert_select "#notice", /is kept/
    get "/"
    assert_select "li", text
    assert_select "#notice", ""
  end

  test "a note without a text is refused" do
    get "/notes/new"
    post "/notes", params: { authenticity_token: token, note: { text: "" } }
    assert_response :unprocessable_entity
  end

  test "the session goes on" do
    (1..3).each do |number|
      get "/visit"
      assert_equal "visit #{number}", response.body
    end
  end

  test "an upload in a form arrives whole" do
    [1000, 5 << 20].each do |size|
      content = SecureRandom.bytes(size)
      post "/upload",
           params: { file: Rack::Test::UploadedFile.new(StringIO.new(content), nil, true, original_filename: "a b.bin") }
      assert_equal "a b.bin: #{digest(content)}", response.body
    end
  end

  test "a bare upload arrives whole" do
    content = SecureRandom.bytes(3 << 20)
    put "/upload", params: content, headers: { "Content-Type" => "application/octet-stream" }
    assert_equal digest(content), response.body
  end

  test "streams are whole and in order" do
    get "/live/1000"
    assert_equal lines(0..1000), response.body
    get "/pieces/1000"
    assert_equal lines(0...1000), response.body
  end

  test "HEAD has no content" do
    head "/visit"
    assert_response :success
    assert_equal "", response.body
  end

  private

  def token
    css_select("input[name=authenticity_token]").first["value"]
  end

  def digest(content)
    "#{content.bytesize} bytes, sha256 #{Digest::SHA256.hexdigest(content)}"
  end

  def lines(numbers)
    numbers.map { |number| "line #{number}\n" }.join
  end
end
