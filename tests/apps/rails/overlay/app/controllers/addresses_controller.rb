# frozen_string_literal: true

# What the app believes to be its address.
class AddressesController < ApplicationController
  def show
    render plain: "#{notes_url} ssl #{request.ssl?}"
  end
end
