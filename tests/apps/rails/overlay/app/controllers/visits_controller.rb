# frozen_string_literal: true

# The session, which Rails keeps in an encrypted cookie.
class VisitsController < ApplicationController
  def show
    session[:visits] = session.fetch(:visits, 0) + 1
    render plain: "visit #{session[:visits]}"
  end
end
