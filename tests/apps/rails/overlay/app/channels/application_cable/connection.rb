# frozen_string_literal: true

module ApplicationCable
  # A client may name itself by a note, which it must have; others have none.
  class Connection < ActionCable::Connection::Base
    identified_by :note

    def connect
      self.note = Note.find_by(id: request.params[:note]) || reject_unauthorized_connection if request.params[:note]
    end

    def disconnect
      ActionCable.server.broadcast("ends", { "end" => note.text }) if note
    end
  end
end
