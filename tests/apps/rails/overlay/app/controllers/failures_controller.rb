# frozen_string_literal: true

class FailuresController < ApplicationController
  def show
    raise "This page is out of order"
  end
end
