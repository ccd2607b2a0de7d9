# frozen_string_literal: true

require "openssl"
require "tmpdir"

# With ORIBI_TEST_TLS=on servers encrypt; this is their certificate, which the clients of the tests trust.
module Certificate
  def self.wanted?
    ENV["ORIBI_TEST_TLS"] == "on"
  end

  # The file with the certificate and its key. The environment of libraries and programs names it as trusted.
  def self.file
    @file ||= begin
      folder = Dir.mktmpdir
      Minitest.after_run { FileUtils.rm_rf(folder) }
      key = OpenSSL::PKey::EC.generate("prime256v1")
      "#{folder}/both.pem".tap do |file|
        File.write(file, certificate_of(key).to_pem + key.to_pem)
        ENV["SSL_CERT_FILE"] = ENV["CURL_CA_BUNDLE"] = file
        # This process has read its environment already.
        OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE.add_file(file)
      end
    end
  end

  def self.certificate_of(key)
    OpenSSL::X509::Certificate.new.tap do |certificate|
      certificate.version = 2
      certificate.serial = OpenSSL::BN.rand(64)
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
      certificate.public_key = key
      certificate.not_before = Time.now - 3600
      certificate.not_after = Time.now + (30 * 24 * 3600)
      add_extensions(certificate)
      certificate.sign(key, OpenSSL::Digest.new("SHA256"))
    end
  end

  def self.add_extensions(certificate)
    factory = OpenSSL::X509::ExtensionFactory.new(certificate, certificate)
    certificate.add_extension(factory.create_extension("basicConstraints", "CA:FALSE", true))
    certificate.add_extension(factory.create_extension("subjectAltName", "IP:127.0.0.1,DNS:localhost"))
  end
  private_class_method :certificate_of, :add_extensions
end
