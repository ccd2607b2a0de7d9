# frozen_string_literal: true

class CreateNotes < ActiveRecord::Migration[6.1]
  def change
    create_table :notes do |table|
      table.string :text, null: false
      table.timestamps
    end
  end
end
