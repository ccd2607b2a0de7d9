# frozen_string_literal: true

# A model in a database, made by a form that is protected against forgery.
class NotesController < ApplicationController
  def index
    @notes = Note.order(:id)
  end

  def new; end

  def create
    note = Note.new(params.require(:note).permit(:text))
    if note.save
      redirect_to notes_url, status: :see_other, notice: "Note #{note.id} is kept."
    else
      render :new, status: :unprocessable_entity
    end
  end
end
