# frozen_string_literal: true

# Answers with the uploaded content, of a form or bare.
class UploadsController < ApplicationController
  skip_forgery_protection

  def create
    upload = params.require(:file)
    render plain: "#{upload.original_filename}: #{digest_of(upload)}"
  end

  def update
    render plain: digest_of(request.body)
  end

  private

  def digest_of(file)
    content = file.read
    "#{content.bytesize} bytes, sha256 #{Digest::SHA256.hexdigest(content)}"
  end
end
