# frozen_string_literal: true

Rails.application.routes.draw do
  root to: "notes#index"
  resources :notes, only: %i[index new create]
  resource :visit, only: :show
  resource :address, only: :show
  resource :upload, only: %i[create update]
  get "live/:lines", to: "streams#live"
  get "pieces/:lines", to: "pieces#index"
  get "failure", to: "failures#show"
  post "rooms/:room", to: "rooms#create"
  post "rooms/:room/later", to: "rooms#later"
  post "disconnect", to: "rooms#disconnect"
  get "threads", to: "rooms#threads"
  mount ActionCable.server => "/cable"
end
