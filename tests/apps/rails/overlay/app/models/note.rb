# frozen_string_literal: true

class Note < ApplicationRecord
  validates :text, presence: true
end
