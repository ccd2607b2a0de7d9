# frozen_string_literal: true

# The address that the app has found for itself.
class AddressesController < ApplicationController
  def show
    render plain: "#{notes_url} ssl #{request.ssl?}"
  end
end
